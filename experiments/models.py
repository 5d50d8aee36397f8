"""What the lab keeps of an experiment: its document, its trials, runs and attempts, and every record of each.

    Experiment:  ACTIVE ⇄ PAUSED → DONE | CANCELLED
    Run:         QUEUED → ASSIGNED → RUNNING → SUCCEEDED | FAILED | CANCELLED
                   ▲─────────┴──────────┘ its attempt is LOST or failed with `retry`, and retries are left
    Attempt:     ASSIGNED → RUNNING → SUCCEEDED | FAILED | CANCELLED | LOST

State changes only by compare-and-set in experiments.services. Record tables are partitioned by run, keyed
(run, attempt number, seq), written by the recorder alone. Results read a run's final attempt only.
"""

from __future__ import annotations

import datetime as dt

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.db import models

from experiments.trace_models import Trace as Trace
from experiments.webhook_models import Webhook as Webhook
from experiments.webhook_models import WebhookDelivery as WebhookDelivery
from hardware.models import NodeKind
from labsite.accounts.models import Project, User


class ExperimentState(models.TextChoices):
    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


class RunState(models.TextChoices):
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(models.TextChoices):
    ASSIGNED = "assigned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


EXPERIMENT_OPEN = (ExperimentState.ACTIVE, ExperimentState.PAUSED)
# What a search of experiments looks through. The index holds this very expression, and serves no other.
EXPERIMENT_TEXT = SearchVector("name", "question", "tags", config="simple")
# For how long a deleted experiment can be had back.
RESTORABLE = dt.timedelta(days=30)
RUN_ENDED = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
ATTEMPT_LIVE = (AttemptState.ASSIGNED, AttemptState.RUNNING)


class Experiment(models.Model):
    """A document and the question it answers. `document` is what was sent, `spec` has every default too. `outcome`
    says why an experiment that plans its own next runs wanted no more.

    A paused experiment keeps what runs and starts nothing; `paused_s` are the seconds of its past pauses, which its
    budget of time does not count. Of queued runs those of a higher `priority` go first. A deleted experiment
    (`deleted_at`) is unseen but for restoring it, and gone for good after 30 days. `imported` says of which tool and
    file its results are, where they were not made here; null else. Such an experiment is DONE from the first.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="experiments")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="experiments")
    name = models.CharField(max_length=200)
    question = models.TextField(blank=True)
    tags = models.JSONField(default=list)
    document = models.JSONField()
    spec = models.JSONField()
    state = models.CharField(max_length=10, choices=ExperimentState.choices, default=ExperimentState.ACTIVE)
    reason = models.TextField(blank=True)
    outcome = models.TextField(blank=True)
    priority = models.SmallIntegerField(default=0)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_s = models.FloatField(default=0.0)
    cloned_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="clones")
    imported = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    deleted_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["project", "-id"], name="experiment_by_project"),
            # lists search words and filter by tags; the purge looks for what was deleted long ago
            GinIndex(EXPERIMENT_TEXT, name="experiment_text"),
            GinIndex(fields=["tags"], name="experiment_tags", opclasses=["jsonb_path_ops"]),
            models.Index(
                fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False), name="experiment_deleted"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """The answer to a create that may be sent twice: same user and key, same body → same experiment."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_per_user")]

    def __str__(self) -> str:
        return self.key


class Trial(models.Model):
    """One cell of the matrix; on a ladder, `label` is what its rung is called."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="trials")
    index = models.PositiveIntegerField()
    settings = models.JSONField()
    label = models.CharField(max_length=60, blank=True)

    class Meta:
        ordering = ["experiment_id", "index"]
        constraints = [models.UniqueConstraint(fields=["experiment", "index"], name="trial_index")]

    def __str__(self) -> str:
        return f"trial {self.index} of experiment {self.experiment_id}"


class Run(models.Model):
    """One repeat of a trial. `spec` is the frozen RunSpec; `summary`, `distributions`, `valid` and `reasons` are
    computed from the records when all of the final attempt's events are stored (runners.metrics, .distributions);
    `prediction` is what the cost model says of a measured run (experiments.services.predicting), null until then.
    `imported` is what an imported run's file said of it (experiments.importing), null else."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="runs")
    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="runs")
    repeat = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED)
    spec = models.JSONField()
    attempts_made = models.PositiveIntegerField(default=0)
    final_attempt = models.OneToOneField("Attempt", null=True, on_delete=models.SET_NULL, related_name="+")
    cancel_requested_at = models.DateTimeField(null=True)
    # what a stopped run becomes: cancelled where a person asked for it, failed where it passed its time limit
    cancel_outcome = models.CharField(max_length=10, choices=RunState.choices, blank=True)
    reason = models.TextField(blank=True)
    summary = models.JSONField(null=True)
    distributions = models.JSONField(null=True)
    prediction = models.JSONField(null=True)
    imported = models.JSONField(null=True)
    valid = models.BooleanField(null=True)
    reasons = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["experiment_id", "position"]
        constraints = [models.UniqueConstraint(fields=["trial", "repeat"], name="run_repeat")]
        indexes = [
            # place_runs reads the queue, the reaper what is under way
            models.Index(fields=["id"], condition=models.Q(state="queued"), name="run_queue"),
            models.Index(fields=["state"], condition=models.Q(state__in=["assigned", "running"]), name="run_under_way"),
            # the reaper looks for ended runs whose results were missed
            models.Index(
                fields=["ended_at"],
                condition=models.Q(valid__isnull=True, final_attempt__isnull=False),
                name="run_without_results",
            ),
            # predicting looks for runs that succeeded of late and have none
            models.Index(
                fields=["ended_at"],
                condition=models.Q(prediction__isnull=True, state="succeeded"),
                name="run_without_prediction",
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.id}"


class Attempt(models.Model):
    """One try of a run on one node; one that was imported had its node elsewhere, and has none here. The recorder moves
    `stored_seq` in the transaction that stores events.

    `chip` is the chip record's version at the claim; `report` the node's last word; `events` its own
    number, which is the count of all. An event that could not be read is counted, and kept as a log line.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    node = models.ForeignKey("hardware.Node", null=True, on_delete=models.PROTECT, related_name="attempts")
    chip = models.ForeignKey("hardware.Chip", null=True, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=10, choices=AttemptState.choices, default=AttemptState.ASSIGNED)
    phase = models.CharField(max_length=20, blank=True)
    # how far the phase is, in words; and until when, by our own clock, the node was fetching the model
    phase_detail = models.CharField(max_length=200, blank=True)
    fetched_at = models.DateTimeField(null=True)
    assigned_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    stored_seq = models.PositiveBigIntegerField(default=0)
    events = models.PositiveBigIntegerField(null=True)
    report = models.JSONField(null=True)
    unreadable_events = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["run_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number"),
            # a node runs one attempt at a time, and a run has one live attempt
            models.UniqueConstraint(
                fields=["node"],
                condition=models.Q(state__in=["assigned", "running"]),
                name="one_live_attempt_per_node",
            ),
            models.UniqueConstraint(
                fields=["run"],
                condition=models.Q(state__in=["assigned", "running"]),
                name="one_live_attempt_per_run",
            ),
        ]
        # the recorder looks for attempts that ended before their last events came
        indexes = [
            models.Index(fields=["ended_at"], condition=models.Q(report__isnull=True), name="attempt_without_report")
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of run {self.run_id}"

    @property
    def is_modelled(self) -> bool:
        """On a modelled node; an imported one says it by its report."""
        return self.node.kind == NodeKind.MODELLED if self.node else bool((self.report or {}).get("modelled"))


class NoiseHistory(models.Model):
    """What a measured node's own repeats of equal settings say of its noise: experiments.analysis.noise.NodeNoise as a
    mapping, by metric. Computed again whenever a run of the node ends."""

    node = models.OneToOneField("hardware.Node", on_delete=models.CASCADE, related_name="noise_history")
    metrics = models.JSONField(default=dict)
    computed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"noise of {self.node_id}"


class Record(models.Model):
    """A stored event. Migration 0001's SQL makes the tables: PARTITION BY HASH (run_id), 16 partitions each,
    primary key (run_id, attempt, seq). Django maps them by a composite primary key and never creates them."""

    pk = models.CompositePrimaryKey("run_id", "attempt", "seq")
    run_id = models.BigIntegerField()
    attempt = models.IntegerField()
    seq = models.BigIntegerField()
    data = models.JSONField()

    class Meta:
        abstract = True
        managed = False

    def __str__(self) -> str:
        return f"{self.attempt}-{self.seq} of run {self.run_id}"


class RequestRecord(Record):
    """runners.events.RequestRecord; the columns beside `data` are those that lists filter and sort by."""

    index = models.IntegerField()
    phase = models.CharField(max_length=10)
    status = models.CharField(max_length=10)
    sent_s = models.FloatField()
    finished_s = models.FloatField(null=True)

    class Meta:
        managed = False
        db_table = "experiments_requestrecord"


class Sample(Record):
    t_s = models.FloatField()

    class Meta:
        managed = False
        db_table = "experiments_sample"


class StepRecord(Record):
    index = models.BigIntegerField()
    start_s = models.FloatField()

    class Meta:
        managed = False
        db_table = "experiments_step"


class LogLine(Record):
    level = models.CharField(max_length=10)

    class Meta:
        managed = False
        db_table = "experiments_logline"


class StatusRecord(Record):
    """Status and Report events: the attempt's course, kept as evidence."""

    kind = models.CharField(max_length=10)

    class Meta:
        managed = False
        db_table = "experiments_statusrecord"


class RegisteredModel(models.Model):
    """A language model that experiments may name, beside those that the lab ships (runners.models.REGISTRY).

    `entry` is runners.models.ModelEntry as a mapping: files with sizes and SHA-256, source, shape, licence. A run keeps
    the entry it was made for, so a model that is retired or registered anew changes no run.
    """

    name = models.SlugField(max_length=100, unique=True)
    entry = models.JSONField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ControlHeartbeat(models.Model):
    """When the reaper last looked. In the gap since then the control plane was down, not the nodes."""

    name = models.CharField(max_length=40, primary_key=True)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.seen_at:%H:%M:%S}"
