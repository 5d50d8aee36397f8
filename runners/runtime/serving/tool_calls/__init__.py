"""Calls of tools in a model's text, in the formats that the families emit; one module per shape of format.

A call arrives whole: its text is held back until it is complete, so that what turns out to be no call stays text.
"""
