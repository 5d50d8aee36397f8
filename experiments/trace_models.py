"""Recorded traffic that experiments may replay: whose it is, what it is like, and which experiments name it.

The rows themselves lie in a file (`experiments.trace_store`), under the hash that a run is frozen with.
"""

from __future__ import annotations

from django.db import models

from labsite.accounts.models import Project, User


class Trace(models.Model):
    """A trace of a project, by a name that is the project's own. `sha256` is that of the file as it is kept (equal
    files are kept once), `source_sha256` that of the file that came. `summary` is runners.traces.figures;
    `skipped` lines of the file gave no row, and `bad_lines` says of the first of them why. It can't be removed while
    there are `experiments` that name it."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="traces")
    name = models.SlugField(max_length=100)
    format = models.CharField(max_length=20)
    sha256 = models.CharField(max_length=64, db_index=True)
    source_sha256 = models.CharField(max_length=64)
    bytes = models.PositiveBigIntegerField()
    rows = models.PositiveIntegerField()
    block_tokens = models.PositiveIntegerField()
    skipped = models.PositiveIntegerField(default=0)
    bad_lines = models.JSONField(default=list)
    summary = models.JSONField()
    experiments = models.ManyToManyField("experiments.Experiment", related_name="traces", blank=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "experiments"
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="trace_name_in_project")]

    def __str__(self) -> str:
        return self.name
