"""A site with one app; PGDATABASE and related variables select PostgreSQL, else an SQLite file."""

import os
from pathlib import Path

SECRET_KEY = "for this example only"  # noqa: S105
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "project.urls"
USE_TZ = os.environ.get("USE_TZ") != "0"
INSTALLED_APPS = ["duebook.integrations.django", "shop"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
    }
    if "PGDATABASE" in os.environ
    else {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_FILE", Path(__file__).parents[1] / "site.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
