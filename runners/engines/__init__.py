"""Engines that a node offers beside the built-in runtime: what its operator lists, and what they say of themselves.

listed.py      `engines.toml` of a node's home, typed; faults are told with the engine and the key
commands.py    the command line of an engine that the node starts, with the run's values in it
offers.py      what the node tells its lab of them: names, kinds and versions; no address, command or key
exposition.py  an engine's /metrics as the few figures that samples have
"""
