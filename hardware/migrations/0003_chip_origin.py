import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hardware", "0002_node_fault"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="chip",
            name="origin",
            field=models.CharField(
                choices=[("catalog", "Catalog"), ("admin", "Admin")], default="catalog", max_length=10
            ),
        ),
        migrations.AddField(
            model_name="chip",
            name="edited_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
