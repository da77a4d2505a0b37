"""Reads the records of many Celery tasks at once from the result backend, and stores marks beside
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
"""Added to the id of a task to form the name of its mark."""
MARKED: Final = "SENT"
NO_TASK: Final = "duebook-no-task"
"""An id that no task has; reading its record succeeds whenever the backend answers."""
AT_ONCE: Final = 500
"""Records that are read by one request."""
ANSWER_WITHIN: Final = 5.0
"""Seconds; Celery allows Redis two minutes, and one task that waits delays all others."""


def _has_keys(backend: Any) -> bool:
    """Whether it stores the record of each task under a key."""
    from celery.backends.base import BaseKeyValueStoreBackend

    return isinstance(backend, BaseKeyValueStoreBackend)


class CeleryResults:
    """Separate connections to a result backend, for one thread."""

    def __init__(self, app: Any) -> None:
        from celery.app import backends

        kind, url = backends.by_url(app.backend_cls or app.conf.result_backend, app.loader)
        self._backend = kind(app=app, url=url)
        self._has_keys = _has_keys(self._backend)
        self._backend.always_retry = False  # it would retry without a limit
        if isinstance(params := getattr(self._backend, "connparams", None), dict):
            _hurry(params)

    def mark(self, task_id: str) -> bool:
        """Mark beside the record of a task, which the worker may already have written, that it was
        sent.

        Returns whether that was possible. A failure does not fail the run, but without the mark a
        takeover would send the task again. Raises Unavailable.
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
        if not self._has_keys:
            return {task_id: self._look_alone(task_id) for task_id in task_ids}
        with _reaching():
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

    def _look_alone(self, task_id: str) -> CeleryRecord:
        """A record that cannot be read although the backend answers fails its own run only."""
        told = ""
        for _ in range(2):  # the first failure may be that of a connection that was closed
            try:
                return self._look_at(task_id)
            except Exception as error:
                told = _named(error)
            with _reaching():
                self._backend.get_task_meta(NO_TASK, cache=False)
        return CeleryRecord(UNREADABLE, told)

    def _look_at(self, task_id: str) -> CeleryRecord:
        """Read one record, from a backend that cannot read many at once."""
        meta = self._backend.get_task_meta(task_id, cache=False)
        record = _record(meta, is_marked=False)
        if record.state is not None:
            return record
        mark = self._backend.get_task_meta(task_id + MARK, cache=False)
        return record._replace(is_marked=mark.get("status") == MARKED)


def _hurry(params: dict[str, Any]) -> None:
    """Limit the timeouts of Redis; an app may set shorter ones."""
    for name in ("socket_timeout", "socket_connect_timeout"):
        if name not in params:  # sockets of this kind do not have it
            continue
        asked = params[name]
        with suppress(TypeError, ValueError):  # text, from the query of a URL
            asked = None if asked is None else float(asked)
        params[name] = min(asked or ANSWER_WITHIN, ANSWER_WITHIN)
    params["retry_on_timeout"] = False


@contextmanager
def _reaching() -> Iterator[None]:
    """Raise Unavailable for any error: none of them says anything about the task itself."""
    try:
        yield
    except Exception as error:
        raise Unavailable(_unreachable(error)) from error


def _unreachable(error: Exception) -> str:
    told = shorten(str(error) or type(error).__name__, 200)
    return f"the result backend of Celery cannot be reached: {told}"


def _values(backend: Any, keys: Sequence[Any]) -> list[Any]:
    """The values in the order of the keys; some backends have no request for many keys."""
    try:
        found = backend.mget(keys)
    except NotImplementedError:
        return [backend.get(key) for key in keys]
    return [found.get(key) for key in keys] if isinstance(found, dict) else list(found)


def _decoded(backend: Any, raw: Any, is_marked: bool) -> CeleryRecord:
    """The record as the worker wrote it: an exception stays a description, and is not recreated."""
    if not raw:
        return CeleryRecord(is_marked=is_marked)
    try:
        return _record(backend.decode(raw), is_marked)
    except Exception as error:  # a serializer that the app does not accept, or not JSON at all
        return CeleryRecord(UNREADABLE, _named(error), is_marked=is_marked)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {shorten(str(error), 200)}"


def _record(meta: Any, is_marked: bool) -> CeleryRecord:
    state = meta.get("status")
    if state in (None, "PENDING"):
        return CeleryRecord(is_marked=is_marked)
    return CeleryRecord(state, meta.get("result"), meta.get("traceback"), is_marked)
