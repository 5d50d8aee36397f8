from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("hardware", "0004_node_pools")]

    operations = [
        migrations.AddField(model_name="node", name="engines", field=models.JSONField(blank=True, default=list)),
    ]
