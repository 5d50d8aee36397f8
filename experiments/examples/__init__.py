"""Experiment documents that the project ships."""
