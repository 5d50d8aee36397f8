"""Writes about chips and nodes. Reads are in hardware.selectors."""

from hardware.services.broker_users import ensure_broker_users
from hardware.services.catalog import add_chip, edit_chip, load_catalog
from hardware.services.lease import mark_busy, mark_idle, mark_lost, record_heartbeat
from hardware.services.lifecycle import drain, resume, retire, rotate
from hardware.services.registration import authenticate_node, issue_join_token, join, register_node

__all__ = [
    "add_chip",
    "authenticate_node",
    "drain",
    "edit_chip",
    "ensure_broker_users",
    "issue_join_token",
    "join",
    "load_catalog",
    "mark_busy",
    "mark_idle",
    "mark_lost",
    "record_heartbeat",
    "register_node",
    "resume",
    "retire",
    "rotate",
]
