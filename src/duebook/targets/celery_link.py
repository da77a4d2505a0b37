"""Talks to Celery: finds an app, sends and revokes tasks, and reads their records from the result
backend, many at once."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import Invalid, Unavailable, quoted, shorten
from duebook.model.secret import HIDDEN
from duebook.targets.celery_states import UNREADABLE, CeleryRecord
from duebook.targets.trace_context import entered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.model.celery_target import CeleryTarget

__all__ = ["AnyCelery", "CeleryLink", "NotSent", "load_celery_app"]

log = logging.getLogger(__name__)

MARK: Final = "-sent"
"""What the name of a mark adds to the id of its task."""
MARKED: Final = "SENT"
AT_ONCE: Final = 500
"""Records that one request reads."""
AT_ONCE_OR_NOT: Final = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
"""A broker that is down is not waited for, as Celery does for six seconds: other runs wait."""
MISSING: Final = "Celery is not installed; run pip install '.[celery]' in a copy of the repository"


class NotSent(Exception):
    """A task that Celery does not take, however often it is tried."""


class AnyCelery(Protocol):
    """What runs need of Celery."""

    @property
    def waits(self) -> bool:
        """Whether the app has a result backend that others can read."""

    def send(
        self,
        target: CeleryTarget,
        kwargs: dict[str, Any],
        task_id: str,
        bare: bool,
        traceparent: str | None = None,
    ) -> bool:
        """Publish a task, and leave a mark that it was; `bare`: its arguments may be shown;
        `traceparent` is the W3C context of the attempt, which goes with the message.

        Returns whether the mark was left. Raises Unavailable when the broker cannot be reached,
        and NotSent.
        """

    def look(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]:
        """The record of each task; raises Unavailable."""

    def revoke(self, task_id: str, terminate: bool) -> None:
        """Ask the workers not to start a task, or to kill it; raises Unavailable."""


def load_celery_app(text: str | None) -> CeleryLink | None:
    """The app that a setting names, with its tasks imported; None for none.

    Raises Invalid for what cannot be imported, or is not a Celery app.
    """
    if not text:
        return None
    try:
        from celery import Celery
        from celery.app.utils import find_app
    except ImportError:
        raise Invalid(f"celery_app {quoted(text)}: {MISSING}") from None
    try:
        app = find_app(text)
        if isinstance(app, Celery):
            app.loader.import_default_modules()
            app.finalize()
    except Exception as error:
        told = f"{type(error).__name__}: {shorten(str(error), 200)}"
        raise Invalid(f"celery_app {quoted(text)} cannot be imported: {told}") from error
    if not isinstance(app, Celery):
        raise Invalid(
            f"celery_app {quoted(text)} is not a Celery app but a {type(app).__name__}; use a name "
            "such as proj or proj.celery:app"
        )
    return CeleryLink(app)


class CeleryLink:
    """One app, used by one thread at a time; its connections are those of that thread."""

    def __init__(self, app: Any) -> None:
        from celery.backends.base import BaseKeyValueStoreBackend, DisabledBackend
        from celery.backends.rpc import RPCBackend

        if app.conf.task_always_eager:
            raise Invalid(
                "the Celery app has task_always_eager, so nothing would reach its workers; turn it "
                "off where Duebook runs"
            )
        self.app = app
        backend = app.backend
        self.waits = not isinstance(backend, DisabledBackend | RPCBackend)
        self._has_keys = isinstance(backend, BaseKeyValueStoreBackend)

    @property
    def name(self) -> str:
        return str(self.app.main or "celery")

    def send(
        self,
        target: CeleryTarget,
        kwargs: dict[str, Any],
        task_id: str,
        bare: bool,
        traceparent: str | None = None,
    ) -> bool:
        options = _options(target) | {"task_id": task_id, "retry": False}
        context = {} if traceparent is None else {"traceparent": traceparent}
        options["headers"] = context | dict(target.headers)
        if not bare:
            options |= {"argsrepr": HIDDEN, "kwargsrepr": HIDDEN}
        if self.waits and target.wait:
            # the header is for the worker; nobody would read the subscription that comes without
            # the option
            options["headers"]["ignore_result"] = False
            options["ignore_result"] = self._has_keys
        task, args = self.app.tasks.get(target.task), list(target.args)
        try:
            with (
                entered(traceparent),
                _reaching("the broker of Celery"),
                self.app.producer_pool.acquire(block=True) as producer,
            ):
                producer.connection.ensure_connection(**AT_ONCE_OR_NOT)
                options["producer"] = producer
                if task is None:
                    self.app.send_task(target.task, args, kwargs, **options)
                else:  # with what it declares itself, such as its queue
                    task.apply_async(args, kwargs, **options)
        except Unavailable:
            raise
        except Exception as error:
            raise NotSent(f"{type(error).__name__}: {shorten(str(error), 500)}") from error
        return self.waits and target.wait and self._mark(task_id)

    def _mark(self, task_id: str) -> bool:
        """Beside the record, which the worker may have written by now. Without it, a takeover would
        send the task again: no reason to fail."""
        backend = self.app.backend
        try:
            if self._has_keys:
                # Redis would block for twenty seconds
                patience = {"max_retries": 1} if hasattr(backend, "ensure") else {}
                backend.set(backend.get_key_for_task(task_id, MARK), MARKED, **patience)
            else:
                backend.store_result(task_id + MARK, None, MARKED)
        except Exception as error:
            log.warning("Celery task %s could not be marked as sent: %s", task_id, error)
            return False
        return True

    def look(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]:
        with _reaching("the result backend of Celery", every=True):
            if not self._has_keys:
                return {task_id: self._look_at(task_id) for task_id in task_ids}
            found: dict[str, CeleryRecord] = {}
            for first in range(0, len(task_ids), AT_ONCE):
                found |= self._look_at_keys(task_ids[first : first + AT_ONCE])
            return found

    def _look_at_keys(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]:
        backend = self.app.backend
        keys = [backend.get_key_for_task(task_id) for task_id in task_ids]
        marks = [backend.get_key_for_task(task_id, MARK) for task_id in task_ids]
        values = _values(backend, [*keys, *marks])
        pairs = zip(task_ids, values, values[len(keys) :], strict=False)
        return {task_id: _decoded(backend, raw, bool(mark)) for task_id, raw, mark in pairs}

    def _look_at(self, task_id: str) -> CeleryRecord:
        """One that must be asked for by itself."""
        meta = self.app.backend.get_task_meta(task_id, cache=False)
        record = _record(meta, is_marked=False)
        if record.state is not None:
            return record
        mark = self.app.backend.get_task_meta(task_id + MARK, cache=False)
        return record._replace(is_marked=mark.get("status") == MARKED)

    def revoke(self, task_id: str, terminate: bool) -> None:
        with (
            _reaching("the broker of Celery", every=True),
            self.app.pool.acquire(block=True) as connection,
        ):
            connection.ensure_connection(**AT_ONCE_OR_NOT)
            self.app.control.revoke(task_id, terminate=terminate, connection=connection)


def _options(target: CeleryTarget) -> dict[str, Any]:
    """How the message is sent, as Celery calls that; what is not given is up to the app."""
    words = {part: getattr(target, part) for part in ("queue", "exchange", "routing_key")}
    times = {p: getattr(target, p) for p in ("expires", "time_limit", "soft_time_limit")}
    seconds = {part: length.total_seconds() for part, length in times.items() if length}
    given = {part: value for part, value in words.items() if value is not None}
    return given | seconds | ({} if target.priority is None else {"priority": target.priority})


@contextmanager
def _reaching(what: str, every: bool = False) -> Iterator[None]:
    """Raises Unavailable for what says nothing about the work; `every`: whatever goes wrong."""
    from kombu.exceptions import OperationalError

    try:
        yield
    except Exception as error:
        if not every and not isinstance(error, OperationalError | OSError):
            raise
        told = f"{what} cannot be reached: {shorten(str(error) or type(error).__name__, 200)}"
        raise Unavailable(told) from error


def _values(backend: Any, keys: Sequence[Any]) -> list[Any]:
    """In the order of the keys; some backends have no request for many."""
    try:
        found = backend.mget(keys)
    except NotImplementedError:
        return [backend.get(key) for key in keys]
    return [found.get(key) for key in keys] if isinstance(found, dict) else list(found)


def _decoded(backend: Any, raw: Any, is_marked: bool) -> CeleryRecord:
    """As the worker wrote it: an exception stays what is told of it, and is not made again."""
    if not raw:
        return CeleryRecord(is_marked=is_marked)
    try:
        return _record(backend.decode(raw), is_marked)
    except Exception as error:  # a serializer that the app does not accept, or not JSON at all
        told = f"{type(error).__name__}: {shorten(str(error), 200)}"
        return CeleryRecord(UNREADABLE, told, is_marked=is_marked)


def _record(meta: Any, is_marked: bool) -> CeleryRecord:
    state = meta.get("status")
    if state in (None, "PENDING"):
        return CeleryRecord(is_marked=is_marked)
    return CeleryRecord(state, meta.get("result"), meta.get("traceback"), is_marked)
