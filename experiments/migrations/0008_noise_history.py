import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0007_run_prediction"),
        ("hardware", "0004_node_pools"),
    ]

    operations = [
        migrations.CreateModel(
            name="NoiseHistory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("metrics", models.JSONField(default=dict)),
                ("computed_at", models.DateTimeField(auto_now=True)),
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="noise_history",
                        to="hardware.node",
                    ),
                ),
            ],
        ),
    ]
