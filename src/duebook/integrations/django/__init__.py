"""Duebook in a Django site: `book` stores everything in the site's default database.

Put "duebook.integrations.django" into INSTALLED_APPS, declare tasks in the `tasks.py` of any app,
and start workers by `manage.py duebook`.
"""

from __future__ import annotations

import os

import django
from django.apps import apps

from duebook.integrations.django.book import DjangoBook

__all__ = ["DjangoBook", "book"]

book = DjangoBook()

if "DJANGO_SETTINGS_MODULE" in os.environ and not (apps.ready or apps.loading):
    django.setup()  # the process of a task imports only the module of the task
