import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_everyday"),
        ("experiments", "0011_imported_results"),
    ]

    operations = [
        migrations.CreateModel(
            name="Trace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.SlugField(max_length=100)),
                ("format", models.CharField(max_length=20)),
                ("sha256", models.CharField(db_index=True, max_length=64)),
                ("source_sha256", models.CharField(max_length=64)),
                ("bytes", models.PositiveBigIntegerField()),
                ("rows", models.PositiveIntegerField()),
                ("block_tokens", models.PositiveIntegerField()),
                ("skipped", models.PositiveIntegerField(default=0)),
                ("bad_lines", models.JSONField(default=list)),
                ("summary", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "experiments",
                    models.ManyToManyField(blank=True, related_name="traces", to="experiments.experiment"),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="traces", to="accounts.project"
                    ),
                ),
            ],
            options={
                "ordering": ["name", "id"],
                "constraints": [models.UniqueConstraint(fields=("project", "name"), name="trace_name_in_project")],
            },
        ),
    ]
