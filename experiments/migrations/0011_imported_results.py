"""Results that were not made here: what their file says of them, and attempts without a node."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0010_experiment_outcome"),
        ("hardware", "0002_node_fault"),
    ]

    operations = [
        migrations.AddField("experiment", "imported", models.JSONField(blank=True, null=True)),
        migrations.AddField("run", "imported", models.JSONField(null=True)),
        migrations.AlterField(
            "attempt",
            "node",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="attempts",
                to="hardware.node",
            ),
        ),
    ]
