from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0003_everyday"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="distributions",
            field=models.JSONField(null=True),
        ),
    ]
