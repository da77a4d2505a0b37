"""Sends and revokes Celery tasks over its own connection, on which no call waits for long."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Unavailable, shorten
from duebook.model.secret import HIDDEN
from duebook.targets.trace_context import entered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duebook.model.celery_target import CeleryTarget

__all__ = ["CeleryBroker", "MaybeSent", "NotRevoked", "NotSent"]

log = logging.getLogger(__name__)

ANSWER_WITHIN: Final = 20
"""Seconds; long, because a broker that only pauses should not get a task twice. Only sending
waits."""
CONNECT_WITHIN: Final = 5.0
RESTED_FOR: Final = 5.0
"""Seconds after which an idle connection is not used again: brokers and firewalls close idle
connections, and what is written to them may be lost."""
NEVER: Final = 0
"""When a request to Celery's workers expires."""


class NotSent(Exception):
    """Celery refuses the task, however often it is sent."""


class NotRevoked(Exception):
    """The broker is reachable, but refuses requests to the workers."""


class MaybeSent(Unavailable):
    """The broker failed after the task was handed to it."""


class CeleryBroker:
    """A connection for one thread."""

    def __init__(
        self, app: Any, waits: bool, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._waits = waits
        self._monotonic = monotonic
        self._connection: Any = None
        self._used_at = 0.0

    def connect(self) -> None:
        """Raises Unavailable."""
        with self._connected():
            pass

    def send(
        self,
        target: CeleryTarget,
        kwargs: dict[str, Any],
        task_id: str,
        bare: bool,
        traceparent: str | None = None,
    ) -> None:
        """Publish a task. `bare` means that its arguments may be shown; `traceparent` is the W3C
        context of the attempt, which is sent with the message.

        Raises Unavailable if the broker cannot be reached, MaybeSent if the connection fails while
        sending, and NotSent if Celery refuses the task.
        """
        options = _options(target) | {"task_id": task_id, "retry": False}
        context = {} if traceparent is None else {"traceparent": traceparent}
        task, args = self._app.tasks.get(target.task), list(target.args)
        # the header is for the worker; without the option Celery would subscribe to a result that
        # is never read
        ignored = not (self._waits and target.wait) and bool(getattr(task, "ignore_result", False))
        options["headers"] = context | dict(target.headers) | {"ignore_result": ignored}
        options["ignore_result"] = True
        if not bare:
            options |= {"argsrepr": HIDDEN, "kwargsrepr": HIDDEN}
        with self._connected() as connection:
            options["producer"] = self._app.amqp.Producer(connection, auto_declare=False)
            try:
                with entered(traceparent), _reaching(MaybeSent):
                    if task is None:
                        self._app.send_task(target.task, args, kwargs, **options)
                    else:  # with the task's own options, such as its queue
                        task.apply_async(args, kwargs, **options)
            except MaybeSent:
                raise
            except Exception as error:
                raise NotSent(_named(error)) from error

    def revoke(self, task_ids: Sequence[str], terminate: bool) -> None:
        """Ask the workers not to start tasks, or to kill them.

        Raises Unavailable if the broker cannot be reached, NotRevoked if it refuses the request.
        Celery's own `control.revoke` would wait for the broker without a limit.
        """
        mailbox = self._app.control.mailbox
        request = {"task_id": list(task_ids), "terminate": terminate, "signal": "SIGTERM"}
        message = {"method": "revoke", "arguments": request, "destination": None}
        with self._connected() as connection:
            try:
                with _reaching(Unavailable, _lost(connection)):
                    producer = self._app.amqp.Producer(connection, auto_declare=False)
                    producer.publish(
                        message | {"pattern": None, "matcher": None},
                        exchange=mailbox.exchange.name,
                        declare=[mailbox.exchange],
                        headers={"clock": mailbox.clock.forward(), "expires": NEVER},
                        serializer=mailbox.serializer,
                        retry=False,
                    )
            except Unavailable:
                raise
            except Exception as error:
                raise NotRevoked(_named(error)) from error

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection that was used a moment ago, or a new one; one that fails is dropped."""
        if self._monotonic() - self._used_at > RESTED_FOR:
            self._drop()
        try:
            with _reaching(Unavailable):
                if self._connection is None:
                    self._connection = self._new_connection()
                    hosts = len(self._connection.alt)
                    once = {"max_retries": hosts, "interval_start": 0, "interval_step": 0}
                    self._connection.ensure_connection(**once)
                _ = self._connection.default_channel
            yield self._connection
            self._used_at = self._monotonic()
        except BaseException:
            self._drop()
            raise

    def _new_connection(self) -> Any:
        conf = self._app.conf
        within = min(conf.broker_connection_timeout or CONNECT_WITHIN, CONNECT_WITHIN)
        connection = self._app.connection_for_write(connect_timeout=within)
        kind = connection.transport.driver_type
        asked = connection.transport_options  # set by the app, so they take precedence
        connection.transport_options = {"max_retries": 0} | _bounds(kind) | asked
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.collect(CONNECT_WITHIN)
        except Exception as error:
            log.debug("a connection to the broker of Celery did not close: %s", error)


def _bounds(kind: str) -> dict[str, Any]:
    """Time limits for the calls of this kind of broker; calls of other kinds end when their thread
    is abandoned."""
    if kind == "redis":
        return {"socket_timeout": ANSWER_WITHIN, "socket_connect_timeout": CONNECT_WITHIN}
    if kind == "amqp":  # without confirmation, a write to a dead connection would count as sent
        times = dict.fromkeys(("read_timeout", "write_timeout"), ANSWER_WITHIN)
        return times | {"confirm_publish": True}
    return {}


def _options(target: CeleryTarget) -> dict[str, Any]:
    """The options of the message, by Celery's names; the app decides about those that are not
    set."""
    words = {part: getattr(target, part) for part in ("queue", "exchange", "routing_key")}
    times = {p: getattr(target, p) for p in ("expires", "time_limit", "soft_time_limit")}
    seconds = {part: length.total_seconds() for part, length in times.items() if length}
    given = {part: value for part, value in words.items() if value is not None}
    return given | seconds | ({} if target.priority is None else {"priority": target.priority})


def _lost(connection: Any) -> tuple[type[BaseException], ...]:
    """Errors after which it makes sense to try again. For some brokers Kombu counts all errors as
    such, also those by which they refuse something."""
    refusals = connection.channel_errors
    lost = [one for one in connection.recoverable_connection_errors if one not in refusals]
    return *lost, *connection.recoverable_channel_errors


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {shorten(str(error), 500)}"


@contextmanager
def _reaching(
    raised: type[Unavailable], lost: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Raise `raised` for errors of the connection, which include `lost`."""
    from kombu.exceptions import OperationalError

    try:
        yield
    except Exception as error:
        if not isinstance(error, (OperationalError, OSError, *lost)):
            raise
        cause = error.__cause__ or error  # kombu wraps a timeout that says nothing
        told = shorten(str(error) or str(cause) or type(cause).__name__, 200)
        raise raised(f"the broker of Celery cannot be reached: {told}") from error
