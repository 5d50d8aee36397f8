from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0008_noise_history"),
    ]

    operations = [
        migrations.AddField(
            model_name="trial",
            name="label",
            field=models.CharField(blank=True, max_length=60),
        ),
    ]
