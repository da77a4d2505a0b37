"""Publishes the log to the sinks that the books name, a thread for each: none holds up another."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Protocol

from duebook.delivery.courier import LEASE, Courier, Outlet
from duebook.delivery.serving import serve
from duebook.errors import DuebookError, Invalid
from duebook.model.sink import load_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from duebook.model.consumer import Consumer
    from duebook.store.base import Store
    from duebook.targets.addresses import Network

__all__ = ["Relay", "open_sink"]

log = logging.getLogger(__name__)

END_WITHIN: Final = 10.0


class Sink(Outlet, Protocol):
    def interrupt(self) -> None:
        """Break off what is under way; from any thread."""

    def close(self) -> None: ...


def open_sink(consumer: Consumer, allowed: tuple[Network, ...]) -> Sink:
    """The sink that a definition means; raises Invalid for what is not installed here.

    What it needs is imported here: a node without sinks starts quicker.
    """
    from duebook.targets.posting import Poster

    options = load_options(consumer.kind, consumer.options)  # what is no longer allowed is refused
    if consumer.kind == "webhook":
        from duebook.sinks.webhook import WebhookSink

        return WebhookSink(options["url"], options["secret"], Poster(allowed))
    if consumer.kind == "kafka":
        from duebook.sinks.kafka import KafkaSink

        config = options.get("config")
        return KafkaSink(options["servers"], Poster(allowed), options.get("prefix", ""), config)
    raise Invalid(f'sink "{consumer.name}" has a kind that this node does not support')


class _Serving:
    """A sink that is being served, until it is told to end."""

    def __init__(self, store: Store, consumer: Consumer, sink: Sink, lease: timedelta) -> None:
        self.consumer = consumer
        self._sink = sink
        self._lease = lease
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(store,), name=f"duebook-sink-{consumer.name}", daemon=True
        )
        self._thread.start()

    def _run(self, store: Store) -> None:
        try:
            courier = Courier(store, self.consumer, self._sink, lease=self._lease)
            serve(store, courier, self._stop)
        finally:
            self._sink.close()

    def stop(self) -> None:
        self._stop.set()
        self._sink.interrupt()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)


class Relay:
    """Serves all sinks of all namespaces, together with the relays of other nodes, who take over
    what it has when it gives no sign of life for a `lease`."""

    def __init__(
        self,
        store: Store,
        allowed: tuple[Network, ...] = (),
        lease: timedelta = LEASE,
        opening: Callable[[Consumer, tuple[Network, ...]], Sink] = open_sink,
    ) -> None:
        self._store = store
        self._lease = lease
        self._allowed = allowed
        self._opening = opening
        self.sinks: tuple[Consumer, ...] = ()
        """those that it saw when it last looked"""
        self._serving: dict[tuple[str, str], _Serving] = {}
        self._refused: dict[tuple[str, str], Consumer] = {}

    def step(self) -> None:
        """Begin what is new, end what is gone."""
        known = self._store.read(lambda tx: tx.consumers.list_consumers())
        self.sinks = tuple(consumer for consumer in known if consumer.kind != "group")
        found = {(consumer.namespace, consumer.name): consumer for consumer in self.sinks}
        for key, serving in list(self._serving.items()):
            if found.get(key) != serving.consumer:
                self._end(key)
        for key, consumer in found.items():
            if key not in self._serving and self._refused.get(key) != consumer:
                self._begin(key, consumer)

    def _begin(self, key: tuple[str, str], consumer: Consumer) -> None:
        try:
            sink = self._opening(consumer, self._allowed)
        except DuebookError as error:
            self._refused[key] = consumer
            log.warning("this node cannot serve sink %s: %s", consumer.name, error)
            return
        log.info("serving sink %s", consumer.name)
        self._serving[key] = _Serving(self._store, consumer, sink, self._lease)

    def _end(self, key: tuple[str, str]) -> None:
        serving = self._serving.pop(key)
        serving.stop()
        serving.join(END_WITHIN)

    def close(self) -> None:
        """End all of them, together."""
        for serving in self._serving.values():
            serving.stop()
        for serving in self._serving.values():
            serving.join(END_WITHIN)
