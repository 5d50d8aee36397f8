from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("hardware", "0003_chip_origin")]

    operations = [
        migrations.AddField(model_name="node", name="pools", field=models.JSONField(blank=True, default=list)),
        migrations.AddField(model_name="node", name="links", field=models.JSONField(blank=True, default=list)),
    ]
