"""Reads the records of Celery tasks from the result backend, many at once, and leaves marks beside
them."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Unavailable, shorten
from duebook.targets.celery_states import UNREADABLE, CeleryRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CeleryResults"]

log = logging.getLogger(__name__)

MARK: Final = "-sent"
"""What the name of a mark adds to the id of its task."""
MARKED: Final = "SENT"
AT_ONCE: Final = 500
"""Records that one request reads."""
ANSWER_WITHIN: Final = 5.0
"""Seconds; Celery lets Redis take two minutes, and whoever waits for one task waits for all."""


def _has_keys(backend: Any) -> bool:
    """Whether it stores the record of a task under a key."""
    from celery.backends.base import BaseKeyValueStoreBackend

    return isinstance(backend, BaseKeyValueStoreBackend)


class CeleryResults:
    """A result backend with connections of its own, used by one thread."""

    def __init__(self, app: Any) -> None:
        from celery.app import backends

        kind, url = backends.by_url(app.backend_cls or app.conf.result_backend, app.loader)
        self._backend = kind(app=app, url=url)
        self._has_keys = _has_keys(self._backend)
        self._backend.always_retry = False  # it would try for ever
        if isinstance(params := getattr(self._backend, "connparams", None), dict):
            _hurry(params)

    def mark(self, task_id: str) -> bool:
        """Say beside the record, which the worker may have written by now, that a task was sent.

        Returns whether it could: without the mark, a takeover would send the task again, which is
        no reason to fail. Raises Unavailable.
        """
        backend = self._backend
        try:
            if not self._has_keys:
                backend.store_result(task_id + MARK, None, MARKED)
                return True
            once = {"max_retries": 0} if hasattr(backend, "ensure") else {}
            backend.set(backend.get_key_for_task(task_id, MARK), MARKED, **once)
        except Exception as error:
            if isinstance(error, OSError) or backend.exception_safe_to_retry(error):
                raise Unavailable(_unreachable(error)) from error
            log.warning("Celery task %s could not be marked as sent: %s", task_id, error)
            return False
        return True

    def look(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]:
        """The record of each task; raises Unavailable."""
        with _reaching():
            if not self._has_keys:
                return {task_id: self._look_at(task_id) for task_id in task_ids}
            found: dict[str, CeleryRecord] = {}
            for first in range(0, len(task_ids), AT_ONCE):
                found |= self._look_at_keys(task_ids[first : first + AT_ONCE])
            return found

    def _look_at_keys(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]:
        backend = self._backend
        keys = [backend.get_key_for_task(task_id) for task_id in task_ids]
        marks = [backend.get_key_for_task(task_id, MARK) for task_id in task_ids]
        values = _values(backend, [*keys, *marks])
        pairs = zip(task_ids, values, values[len(keys) :], strict=False)
        return {task_id: _decoded(backend, raw, bool(mark)) for task_id, raw, mark in pairs}

    def _look_at(self, task_id: str) -> CeleryRecord:
        """One that must be asked for by itself."""
        meta = self._backend.get_task_meta(task_id, cache=False)
        record = _record(meta, is_marked=False)
        if record.state is not None:
            return record
        mark = self._backend.get_task_meta(task_id + MARK, cache=False)
        return record._replace(is_marked=mark.get("status") == MARKED)


def _hurry(params: dict[str, Any]) -> None:
    """Of Redis; an app that asks for less patience gets it."""
    for name in ("socket_timeout", "socket_connect_timeout"):
        if name not in params:  # no socket of this kind has it
            continue
        asked = params[name]
        with suppress(TypeError, ValueError):  # text, from a query of its address
            asked = None if asked is None else float(asked)
        params[name] = min(asked or ANSWER_WITHIN, ANSWER_WITHIN)
    params["retry_on_timeout"] = False


@contextmanager
def _reaching() -> Iterator[None]:
    """Whatever goes wrong says nothing about the work."""
    try:
        yield
    except Exception as error:
        raise Unavailable(_unreachable(error)) from error


def _unreachable(error: Exception) -> str:
    told = shorten(str(error) or type(error).__name__, 200)
    return f"the result backend of Celery cannot be reached: {told}"


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
