"""Publishes the log to the sinks defined in the database, with a thread for each, so that none
holds up another.

Alerts are the exception: they have threads only while there is something to deliver.
"""

from __future__ import annotations

import logging
import threading
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from duebook.delivery.courier import LEASE, Courier, Outlet
from duebook.delivery.serving import serve
from duebook.engine.alert_relay import AlertRelay
from duebook.engine.unserved import Unserved
from duebook.errors import DuebookError, Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.ping import load_urls
from duebook.model.serving import ALL
from duebook.model.sink import load_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from duebook.engine.alert_desk import Key
    from duebook.model.consumer import Consumer
    from duebook.model.serving import Serving
    from duebook.model.smtp_server import SmtpServer
    from duebook.store.base import Store
    from duebook.targets.addresses import Network
    from duebook.targets.spawner import Spawner

__all__ = ["Relay", "RelaySetup", "open_sink"]

log = logging.getLogger(__name__)

END_WITHIN: Final = 10.0
LONGEST_REASON: Final = 300
PING_WITHIN: Final = 10.0
"""Timeout in seconds for one ping."""


class Sink(Outlet, Protocol):
    def interrupt(self) -> None:
        """Break off what is in progress; call from any thread."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RelaySetup:
    """What a node provides to its sinks."""

    allowed: tuple[Network, ...] = ()
    """networks that are not public but may be reached"""
    smtp: SmtpServer | None = None
    """the mail server for channels that name none"""
    spawner: Spawner | None = None
    """starts the commands of channels"""
    namespaces: Serving = ALL
    """the namespaces whose commands this node executes"""
    public_url: str | None = None
    """the address of the dashboard for users"""


def open_sink(consumer: Consumer, setup: RelaySetup) -> Sink:
    """The sink of a definition; raises Invalid for one that is not installed here.

    Its imports are made here, as a node without sinks starts quicker.
    """
    if consumer.kind == "alert_channel":
        return _open_channel(consumer, setup)
    from duebook.targets.posting import Poster

    allowed = setup.allowed
    if consumer.kind == "ping":
        from duebook.sinks.ping import PingSink

        return PingSink(load_urls(consumer.options["urls"]), Poster(allowed, PING_WITHIN))
    options = load_options(consumer.kind, consumer.options)  # rejects what is no longer allowed
    if consumer.kind == "webhook":
        from duebook.sinks.webhook import WebhookSink

        return WebhookSink(options["url"], options["secret"], Poster(allowed))
    if consumer.kind == "kafka":
        from duebook.sinks.kafka import KafkaSink

        config = options.get("config")
        return KafkaSink(options["servers"], Poster(allowed), options.get("prefix", ""), config)
    raise Invalid(f'sink "{consumer.name}" has a kind that this node does not support')


def _open_channel(consumer: Consumer, setup: RelaySetup) -> Sink:
    from duebook.model.channel import load_channel
    from duebook.sinks.alert_channel import AlertChannelSink
    from duebook.sinks.channels import ChannelSetup, open_channel

    channel = load_channel(consumer.options["channel"])
    spawner = setup.spawner if consumer.namespace in setup.namespaces else None
    lent = ChannelSetup(setup.allowed, setup.smtp, spawner, setup.spawner)
    return AlertChannelSink(consumer.name, open_channel(channel, lent), setup.public_url)


class _Serving:
    """A sink being served, until it is told to end or nothing has come for a while."""

    def __init__(
        self,
        store: Store,
        consumer: Consumer,
        sink: Sink,
        lease: timedelta,
        lingers: float = inf,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.consumer = consumer
        self._sink = sink
        self._lease = lease
        self._lingers = lingers
        self._ended = ended
        self.is_over = False
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(store,), name=f"duebook-sink-{consumer.name}", daemon=True
        )
        self._thread.start()

    def _run(self, store: Store) -> None:
        try:
            courier = Courier(store, self.consumer, self._sink, lease=self._lease)
            serve(store, courier, self._stop, self._lingers)
        finally:
            self._sink.close()
            self.is_over = True
            self._ended()

    def stop(self) -> None:
        self._stop.set()
        self._sink.interrupt()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)


class Relay:
    """Serves all sinks of all namespaces, together with the relays of other nodes, which take over
    its partitions after a `lease` without a heartbeat. `ring` calls for its next step."""

    def __init__(
        self,
        store: Store,
        setup: RelaySetup | None = None,
        lease: timedelta = LEASE,
        unserved: Unserved | None = None,
        opening: Callable[[Consumer, RelaySetup], Sink] = open_sink,
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._setup = setup or RelaySetup()
        self._opening = opening
        self._ring = ring
        self.unserved = unserved or Unserved(store)
        """by it, others see what this node cannot serve"""
        self.sinks: tuple[Consumer, ...] = ()
        """the sinks found by the last look"""
        self._serving: dict[Key, _Serving] = {}
        self._refused: dict[Key, tuple[Consumer, str]] = {}
        """what it cannot serve, and why"""
        self.follows_log = False
        """whether it wants a step when the log has grown"""
        self._alerts = AlertRelay(store, lease, self._begin_channel)

    def step(self) -> float:
        """Serve what is new or has something to do, and end what is gone; returns in how many
        seconds to look again."""
        known = self._store.read(lambda tx: tx.consumers.list_consumers())
        self.sinks = tuple(consumer for consumer in known if consumer.kind != "group")
        found = {(consumer.namespace, consumer.name): consumer for consumer in self.sinks}
        self._end_gone(found)
        of_alerts = {}
        for key, consumer in found.items():
            if consumer.kind in ("alert_rules", "alert_channel"):
                of_alerts[key] = consumer
            elif key not in self._serving:
                self._begin(key, consumer)
        self.follows_log = bool(of_alerts)
        self._try_channels(of_alerts)
        self.unserved.tell("relay", {key: why for key, (_, why) in self._refused.items()})
        return self._alerts.step(of_alerts, self._serving.keys())

    def _end_gone(self, found: Mapping[Key, Consumer]) -> None:
        for key, serving in list(self._serving.items()):
            if found.get(key) != serving.consumer or serving.is_over:
                self._end(key)
        self._refused = {
            key: (consumer, why)
            for key, (consumer, why) in self._refused.items()
            if found.get(key) == consumer
        }

    def _open(self, key: Key, consumer: Consumer) -> Sink | None:
        """None if this node cannot serve it, which is recorded."""
        if key in self._refused:
            return None
        try:
            return self._opening(consumer, self._setup)
        except DuebookError as error:
            self._refused[key] = consumer, shorten(str(error), LONGEST_REASON)
            log.warning("this node cannot serve sink %s: %s", consumer.name, error)
            return None

    def _begin(self, key: Key, consumer: Consumer, lingers: float = inf) -> None:
        if (sink := self._open(key, consumer)) is None:
            return
        log.info("serving sink %s", consumer.name)
        lent = self._lease, lingers, self._ring
        self._serving[key] = _Serving(self._store, consumer, sink, *lent)

    def _begin_channel(self, consumer: Consumer, lingers: float) -> None:
        self._begin((consumer.namespace, consumer.name), consumer, lingers)

    def _try_channels(self, consumers: Mapping[Key, Consumer]) -> None:
        """Open new ones once, so that one that cannot be served is reported before it is needed."""
        for key, consumer in self._alerts.new_channels(consumers):
            if (sink := self._open(key, consumer)) is not None:
                sink.close()

    def _end(self, key: Key) -> None:
        serving = self._serving.pop(key)
        serving.stop()
        serving.join(END_WITHIN)

    def close(self) -> None:
        """End all of them in parallel."""
        for serving in self._serving.values():
            serving.stop()
        self._alerts.close()
        for serving in self._serving.values():
            serving.join(END_WITHIN)
