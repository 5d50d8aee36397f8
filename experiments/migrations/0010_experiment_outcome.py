from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0009_trial_label"),
    ]

    operations = [
        migrations.AddField(
            model_name="experiment",
            name="outcome",
            field=models.TextField(blank=True),
        ),
    ]
