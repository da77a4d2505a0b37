"""Django's view of Duebook: an app without models. It imports the tasks of all other apps, and
migrates Duebook's tables together with the site's own."""

from __future__ import annotations

from typing import Any

from django import db
from django.apps import AppConfig
from django.db.models.signals import pre_migrate
from django.utils.module_loading import autodiscover_modules

from duebook.integrations.django.book import database_url, is_in_memory
from duebook.store.opening import open_store
from duebook.store.sqlite.connection import APPLICATION_ID

__all__ = ["DuebookConfig"]


class DuebookConfig(AppConfig):
    name = "duebook.integrations.django"
    label = "duebook"

    def ready(self) -> None:
        autodiscover_modules("tasks")
        pre_migrate.connect(_migrate_books, dispatch_uid=self.name)


def _migrate_books(using: str, **_: Any) -> None:
    """Migrate Duebook's tables as part of `manage.py migrate`; databases in memory have none."""
    if using != db.DEFAULT_DB_ALIAS or is_in_memory():
        return
    if db.connection.vendor == "sqlite":
        _share_file()
    open_store(database_url()).close()


def _share_file() -> None:
    """Mark the site's file as shared: Duebook does not touch files of other programs otherwise."""
    with db.connection.cursor() as cursor:
        cursor.execute("PRAGMA application_id")
        if cursor.fetchone() == (0,):
            cursor.execute(f"PRAGMA application_id = {APPLICATION_ID}")
