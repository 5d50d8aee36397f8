"""A modelled node's agent against a real lab: join, take runs, deliver every event, leave."""

from __future__ import annotations
