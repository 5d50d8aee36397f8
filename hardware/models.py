"""Chips and nodes: what experiments run on.

Node:  REGISTERED → ONLINE ⇄ BUSY
                      │ ▲      │
                      ▼ │      ▼
                    DRAINING → (finishes its run, takes no other; resume → ONLINE)
       any of them → LOST (no lease for 25 s) → ONLINE when it speaks again
       any of them → RETIRED (for good: credentials revoked)
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.conf import settings
from django.db import models

from hardware.pools import offers_of

LEASE_S = 15.0
LOST_AFTER_S = 25.0
HEARTBEAT_S = 5.0


class ChipOrigin(models.TextChoices):
    CATALOG = "catalog"
    ADMIN = "admin"


class Chip(models.Model):
    """One version of a chip's record. An edit makes a new version; runs keep the version they ran with.

    `origin` says whether a file of the catalog made the version or a person, `edited_by`, did.
    """

    chip_id = models.SlugField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    current = models.BooleanField(default=True)
    name = models.CharField(max_length=200)
    vendor = models.CharField(max_length=100)
    kind = models.CharField(max_length=40)
    record = models.JSONField()
    origin = models.CharField(max_length=10, choices=ChipOrigin.choices, default=ChipOrigin.CATALOG)
    edited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["vendor", "name"]
        constraints = [
            models.UniqueConstraint(fields=["chip_id", "version"], name="chip_version"),
            models.UniqueConstraint(
                fields=["chip_id"], condition=models.Q(current=True), name="one_current_version_per_chip"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class NodeKind(models.TextChoices):
    MEASURED = "measured"
    MODELLED = "modelled"


class NodeState(models.TextChoices):
    REGISTERED = "registered"
    ONLINE = "online"
    BUSY = "busy"
    DRAINING = "draining"
    LOST = "lost"
    RETIRED = "retired"


class Node(models.Model):
    """A machine that runs experiments (measured), or a place where a chip is modelled.

    `slug` names it in broker keys, labels and specs. `facts` is what the agent detected (CPU model, cores, memory,
    instruction sets, accelerators, versions); `ceilings` what it measured once (bytes/s by threads, FLOP/s by
    precision) with the time of measuring. `engines` are those that it offers beside the built-in runtime, as its agent
    told them (hardware.messages). `api_digest` is the SHA-256 of the agent's own token.
    A node without a project serves every project. A modelled node offers `chip`, its own, and the chips of its `pools`,
    joined by `links` (hardware.pools has their form).
    """

    name = models.CharField(max_length=100, unique=True)
    slug = models.SlugField(max_length=60, unique=True)
    project = models.ForeignKey(
        "accounts.Project", null=True, blank=True, on_delete=models.PROTECT, related_name="nodes"
    )
    kind = models.CharField(max_length=10, choices=NodeKind.choices, default=NodeKind.MEASURED)
    chip = models.ForeignKey(Chip, null=True, blank=True, on_delete=models.PROTECT, related_name="nodes")
    pools = models.JSONField(default=list, blank=True)
    links = models.JSONField(default=list, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    usd_per_hour = models.FloatField(null=True, blank=True)
    state = models.CharField(max_length=12, choices=NodeState.choices, default=NodeState.REGISTERED)
    # the operator's wish, kept apart from the state so that a node lost while draining comes back draining
    draining = models.BooleanField(default=False)
    facts = models.JSONField(default=dict, blank=True)
    ceilings = models.JSONField(default=dict, blank=True)
    models_held = models.JSONField(default=list, blank=True)
    engines = models.JSONField(default=list, blank=True)
    api_digest = models.CharField(max_length=64, blank=True, db_index=True)
    broker_username = models.CharField(max_length=80, blank=True)
    broker_digest = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=80, blank=True)
    # why the node takes no work though its agent may run; empty where nothing is wrong
    fault = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        # placement and the reaper look for live nodes only
        indexes = [models.Index(fields=["state"], name="node_by_state")]

    def __str__(self) -> str:
        return self.name

    def is_lost(self, now: dt.datetime, blind_s: float = 0.0) -> bool:
        """No word for LOST_AFTER_S of the control plane's own clock, less the time it was itself down (`blind_s`)."""
        if self.last_seen_at is None:
            return False
        return (now - self.last_seen_at).total_seconds() - blind_s > LOST_AFTER_S

    def all_labels(self) -> dict[str, Any]:
        """Its own labels and those every node has: `kind`, `chip` (a chip id), `name` (its slug)."""
        chip = self.chip.chip_id if self.chip else ""
        return {**self.labels, "kind": self.kind, "chip": chip, "name": self.slug}

    def offers(self) -> dict[str, int]:
        """How many chips it offers of each id: a measured node the one that it is."""
        chip_id = self.chip.chip_id if self.chip else ""
        if self.kind == NodeKind.MODELLED:
            return offers_of(chip_id, self.pools)
        return {chip_id: 1} if chip_id else {}


class JoinToken(models.Model):
    """Lets one agent join as one node, once, within minutes. Only the SHA-256 is kept."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="join_tokens")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"join token for {self.node}"
