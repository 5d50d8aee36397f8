"""From a model's files to a decoder's configuration and weights, for every family and both kinds of file."""
