"""The database of a Django site for Duebook: its URL, and how tasks use Django's connections."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django import conf, db

from duebook.app import Duebook
from duebook.errors import Invalid, shorten
from duebook.targets.task import Tasks, check_function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.targets.task import Isolation, Task

__all__ = ["DjangoBook", "database_url", "is_in_memory"]


def is_in_memory() -> bool:
    """Whether the default database is in memory, where no other process can see it."""
    return db.connection.vendor == "sqlite" and db.connection.is_in_memory_db()  # type: ignore[attr-defined]


def database_url() -> str:
    """The URL of the default database at present: Django's tests use a different one.

    Raises Invalid for a database that Duebook cannot use.
    """
    if db.connection.vendor == "postgresql":
        from psycopg import pq

        known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
        given = db.connection.get_connection_params().items()
        parts = {key: value for key, value in given if key in known}
        return f"postgresql:///?{urlencode(parts, quote_via=quote)}"
    name = str(db.connection.settings_dict["NAME"])
    if db.connection.vendor != "sqlite":
        raise Invalid(
            f'the default database is {db.connection.vendor} "{shorten(name)}", but Duebook '
            "needs PostgreSQL or SQLite; declare tasks on a separate Duebook(…)"
        )
    if is_in_memory():
        raise Invalid(
            "the default database is in memory, where no worker can read it; for tests set "
            'DATABASES["default"]["TEST"]["NAME"] to the path of a file'
        )
    return f"sqlite:///{name}"


class DjangoBook(Duebook):
    """Duebook in the default database of a Django site."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = _DjangoTasks()

    @property
    def database_url(self) -> str:
        return database_url()

    @property
    def app(self) -> str:
        """The name of the package with the site's settings."""
        return str(conf.settings.SETTINGS_MODULE).partition(".")[0].lower()

    def move(self, database_url: str | None = None, namespace: str | None = None) -> None:
        if database_url is not None:
            raise Invalid("a Django site always uses its default database; change DATABASES")
        super().move(namespace=namespace)


class _DjangoTasks(Tasks):
    """Closes broken and old connections before and after a task in a thread, as Django does for
    requests."""

    def add(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        isolation: Isolation | None = None,
        schedule: Any = None,
        policies: Mapping[str, Any] | None = None,
        namespaces: str | Sequence[str] | None = None,
    ) -> Task:
        check_function(function)
        if not inspect.iscoroutinefunction(function):
            function = _tidied(function)
        return super().add(function, name, isolation, schedule, policies, namespaces)


def _tidied(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def tidied(*args: Any, **kwargs: Any) -> Any:
        db.close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            db.close_old_connections()

    return tidied
