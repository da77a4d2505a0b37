"""The scheduler class for `celery beat`: declares `beat_schedule` in the database, and runs a node
that plans due times and sends tasks."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

from celery import beat

from duebook.app import Duebook
from duebook.book.schedules import Schedules
from duebook.engine.background_node import BackgroundNode
from duebook.engine.node_options import NodeOptions
from duebook.errors import Conflict, Invalid, counted
from duebook.integrations.celery.entries import read_entries
from duebook.model.node_times import read_lease, read_stop_within
from duebook.model.serving import Serving
from duebook.secret_sources import read_sources
from duebook.settings import NAMES, load_settings
from duebook.store.opening import place_of
from duebook.targets.celery_link import CeleryLink
from duebook.targets.command_setup import command_setup
from duebook.targets.spawner import Spawner

if TYPE_CHECKING:
    from duebook.settings import Settings

__all__ = ["Scheduler", "beat_settings", "declare_entries"]

log = logging.getLogger(__name__)

SLOTS: Final = 1_000
"""Tasks that may be active at once; one that waits costs a few kilobytes, and no thread."""
CHECK_EVERY: Final = 1.0
"""Seconds between two checks that the node is still alive."""
PREFIX: Final = "duebook_"


class Scheduler(beat.Scheduler):  # type: ignore[misc]  # Celery has no types
    """Runs any number of times, on any number of machines: the instances share the database, and
    each due time is sent once."""

    def __init__(self, app: Any, *args: Any, **kwargs: Any) -> None:
        self._settings = beat_settings(app)
        self._spawner: Spawner | None = None
        self._node: BackgroundNode | None = None
        self._book: Duebook | None = None
        super().__init__(app, *args, **kwargs)

    @property
    def info(self) -> str:
        """The text that beat prints when it starts."""
        return f"    . db -> {place_of(self._settings.database_url).removeprefix('database ')}"

    def setup_schedule(self) -> None:
        """Declare the entries and start the node; raises Invalid for invalid entries."""
        settings, app = self._settings, self.app
        link, entries = CeleryLink(app), read_entries(app)
        options = NodeOptions(
            slots=int(app.conf.get(f"{PREFIX}slots") or SLOTS),
            namespaces=Serving((settings.namespace,)),
            roles=("scheduler", "worker"),
            coordination=settings.coordination,
            stop_within=read_stop_within(settings.stop_within),
            lease=read_lease(settings.lease),
            secrets=read_sources(settings.secrets),
            celery=link,
            known_only=True,
        )
        if not link.waits:
            log.warning("the app has no result backend: a run ends when its task is sent")
        spawner = self._spawner = Spawner(command_setup(settings.pass_env, None))
        spawner.start()  # before any thread
        book = self._book = Duebook(settings.database_url, settings.namespace)
        declare_entries(book, f"celery-beat:{link.name}", entries)
        self._node = BackgroundNode(lambda ready: book.serve(spawner, options, ready=ready))
        self._node.begin()

    def tick(self, *_: Any, **__: Any) -> float:
        """Check the node, which works in the background; raises what has ended it."""
        if self._node is not None and not self._node.is_alive:
            self._node.end()
            raise Conflict("the node of this beat has stopped")
        return CHECK_EVERY

    def close(self) -> None:
        """Hand back active runs, so that another node waits for their results. Safe to call
        again."""
        book, spawner, node = self._book, self._spawner, self._node
        self._book = self._spawner = self._node = None
        if book is not None and node is not None:
            book.stop()
            node.end()
        if spawner is not None:
            spawner.close()
        if book is not None:
            book.close()


def beat_settings(app: Any) -> Settings:
    """The settings of the app (`duebook_…`); those of the environment override them, and they
    override those of duebook.toml."""
    given = {name: app.conf.get(PREFIX + name) for name in NAMES}
    return load_settings(
        {
            name: str(value)
            for name, value in given.items()
            if value is not None and f"DUEBOOK_{name.upper()}" not in os.environ
        }
    )


def declare_entries(book: Duebook, owner: str, entries: dict[str, dict[str, Any]]) -> None:
    """Declare the entries, and delete those that no longer exist. Paused schedules stay paused; an
    entry that cannot be declared is logged, and does not affect the others."""
    changed = 0
    for name, definition in entries.items():
        try:
            _, what = book.schedules.declare_one(name, owner, **definition)
        except (Invalid, Conflict) as error:
            log.error("entry %s of beat_schedule was not declared: %s", name, error)  # noqa: TRY400
        else:
            changed += what != "unchanged"
    made = book.store.read(lambda tx: tx.schedules.list_owned(book.namespace, owner))
    gone = [name for name in made if name not in entries]
    for name in gone:
        Schedules(book.store, book.namespace, by=owner).delete(name)
    told = counted(len(entries), "schedule"), changed, len(gone)
    log.info("beat_schedule declares %s: %d changed, %d deleted", *told)
