"""The first tables. Record tables are partitioned by the hash of the run, so that each index stays small."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

PARTITIONS = 16
KEY = "run_id bigint NOT NULL, attempt integer NOT NULL, seq bigint NOT NULL, data jsonb NOT NULL"
RECORD_TABLES = {
    "experiments_requestrecord": (
        "index integer NOT NULL, phase varchar(10) NOT NULL, status varchar(10) NOT NULL,"
        " sent_s double precision NOT NULL, finished_s double precision"
    ),
    "experiments_sample": "t_s double precision NOT NULL",
    "experiments_step": "index bigint NOT NULL, start_s double precision NOT NULL",
    "experiments_logline": "level varchar(10) NOT NULL",
    "experiments_statusrecord": "kind varchar(10) NOT NULL",
}


def create_tables() -> list[str]:
    statements = []
    for table, columns in RECORD_TABLES.items():
        statements.append(
            f"CREATE TABLE {table} ({KEY}, {columns}, PRIMARY KEY (run_id, attempt, seq)) PARTITION BY HASH (run_id)"
        )
        statements += [
            f"CREATE TABLE {table}_{part:02} PARTITION OF {table}"
            f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})"
            for part in range(PARTITIONS)
        ]
    return statements


def drop_tables() -> list[str]:
    return [f"DROP TABLE {table}" for table in RECORD_TABLES]


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("hardware", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="LogLine",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "attempt",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run_id", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("data", models.JSONField()),
                ("level", models.CharField(max_length=10)),
            ],
            options={
                "db_table": "experiments_logline",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="RequestRecord",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "attempt",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run_id", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("data", models.JSONField()),
                ("index", models.IntegerField()),
                ("phase", models.CharField(max_length=10)),
                ("status", models.CharField(max_length=10)),
                ("sent_s", models.FloatField()),
                ("finished_s", models.FloatField(null=True)),
            ],
            options={
                "db_table": "experiments_requestrecord",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="Sample",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "attempt",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run_id", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("data", models.JSONField()),
                ("t_s", models.FloatField()),
            ],
            options={
                "db_table": "experiments_sample",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="StatusRecord",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "attempt",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run_id", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("data", models.JSONField()),
                ("kind", models.CharField(max_length=10)),
            ],
            options={
                "db_table": "experiments_statusrecord",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="StepRecord",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "attempt",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run_id", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("data", models.JSONField()),
                ("index", models.BigIntegerField()),
                ("start_s", models.FloatField()),
            ],
            options={
                "db_table": "experiments_step",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="ControlHeartbeat",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("number", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("assigned", "Assigned"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        default="assigned",
                        max_length=10,
                    ),
                ),
                ("phase", models.CharField(blank=True, max_length=20)),
                ("assigned_at", models.DateTimeField(auto_now_add=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("claimed_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True)),
                ("stored_seq", models.PositiveBigIntegerField(default=0)),
                ("events", models.PositiveBigIntegerField(null=True)),
                ("report", models.JSONField(null=True)),
                ("unreadable_events", models.PositiveIntegerField(default=0)),
                (
                    "chip",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="hardware.chip",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="hardware.node",
                    ),
                ),
            ],
            options={
                "ordering": ["run_id", "number"],
            },
        ),
        migrations.CreateModel(
            name="Experiment",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("name", models.CharField(max_length=200)),
                ("question", models.TextField(blank=True)),
                ("tags", models.JSONField(default=list)),
                ("document", models.JSONField()),
                ("spec", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("done", "Done"), ("cancelled", "Cancelled")],
                        default="active",
                        max_length=10,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="experiments",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="experiments",
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("key", models.CharField(max_length=200)),
                ("body_digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "experiment",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="experiments.experiment"),
                ),
                (
                    "user",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("repeat", models.PositiveIntegerField()),
                ("position", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("assigned", "Assigned"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("spec", models.JSONField()),
                ("attempts_made", models.PositiveIntegerField(default=0)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                (
                    "cancel_outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("queued", "Queued"),
                            ("assigned", "Assigned"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=10,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("summary", models.JSONField(null=True)),
                ("valid", models.BooleanField(null=True)),
                ("reasons", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="experiments.experiment",
                    ),
                ),
                (
                    "final_attempt",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="experiments.attempt",
                    ),
                ),
            ],
            options={
                "ordering": ["experiment_id", "position"],
            },
        ),
        migrations.AddField(
            model_name="attempt",
            name="run",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="experiments.run"
            ),
        ),
        migrations.CreateModel(
            name="Trial",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("index", models.PositiveIntegerField()),
                ("settings", models.JSONField()),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trials",
                        to="experiments.experiment",
                    ),
                ),
            ],
            options={
                "ordering": ["experiment_id", "index"],
            },
        ),
        migrations.AddField(
            model_name="run",
            name="trial",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="experiments.trial"
            ),
        ),
        migrations.AddIndex(
            model_name="experiment",
            index=models.Index(fields=["project", "-id"], name="experiment_by_project"),
        ),
        migrations.AddConstraint(
            model_name="idempotencykey",
            constraint=models.UniqueConstraint(fields=("user", "key"), name="idempotency_key_per_user"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("run", "number"), name="attempt_number"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["assigned", "running"])),
                fields=("node",),
                name="one_live_attempt_per_node",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["assigned", "running"])),
                fields=("run",),
                name="one_live_attempt_per_run",
            ),
        ),
        migrations.AddConstraint(
            model_name="trial",
            constraint=models.UniqueConstraint(fields=("experiment", "index"), name="trial_index"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("state", "queued")), fields=["id"], name="run_queue"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("state__in", ["assigned", "running"])),
                fields=["state"],
                name="run_under_way",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(fields=("trial", "repeat"), name="run_repeat"),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("report__isnull", True)), fields=["ended_at"], name="attempt_without_report"
            ),
        ),
        migrations.RunSQL(create_tables(), drop_tables()),
    ]
