"""`inference-lab`: the lab from a terminal, over the REST API alone. The commands are put together in app.py."""
