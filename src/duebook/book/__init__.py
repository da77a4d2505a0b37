"""The client: every use case of schedules, runs and queues, one transaction each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.queues import Queues
from duebook.book.runs import Runs
from duebook.book.schedules import Schedules
from duebook.closing import Closing
from duebook.ids import check_name
from duebook.settings import load_settings

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["Book", "Duebook", "Queues", "Runs", "Schedules"]


class Book(Closing):
    """A namespace of the books; safe to use from several threads."""

    def __init__(self, store: Store, namespace: str = "default") -> None:
        self.store = store
        self.namespace = check_name(namespace, "namespace")
        self.schedules = Schedules(store, self.namespace)
        self.runs = Runs(store, self.namespace)
        self.queues = Queues(store)

    def close(self) -> None:
        self.store.close()


class Duebook(Book):
    """The books at a place: `postgresql://…`, `sqlite:///path/duebook.db` or a path.

    Without one, the setting `database_url` decides, and the file .duebook/duebook.db otherwise.
    """

    def __init__(self, database_url: str | None = None, namespace: str | None = None) -> None:
        from duebook.store.opening import open_store

        settings = load_settings({"database_url": database_url, "namespace": namespace})
        store = open_store(settings.database_url, settings.listen_url)
        super().__init__(store, settings.namespace)
