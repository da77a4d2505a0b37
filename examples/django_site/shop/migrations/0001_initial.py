"""Creates the table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False)),
                ("email", models.EmailField(max_length=254)),
                ("confirmed", models.BooleanField(default=False)),
            ],
        ),
    ]
