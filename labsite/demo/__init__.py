"""The demonstration that `manage.py lab --demo` runs: a client of the REST API alone, like any other."""
