"""The alarms of the loops of a node, and which of them ring for news and for a pulse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.engine.alarm import Alarm
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.consumer import Consumer
    from duebook.store.values import Pulse

__all__ = ["Alarms"]


class Alarms:
    """One for each loop, by its name."""

    def __init__(self) -> None:
        self.ticker, self.second_ticker = Alarm(), Alarm()
        self.advancer, self.dispatcher = Alarm(), Alarm()
        self.sequencer, self.relay = Alarm(), Alarm()
        self.retention, self.keeper = Alarm(), Alarm()

    def ring_all_but_keeper(self) -> None:
        for name, alarm in vars(self).items():
            if name != "keeper":
                alarm.ring()

    def hear(self, news: News, follows_log: bool) -> None:
        """Another process changed the database; `follows_log`: the relay waits for any event."""
        if News.WAKE in news:
            self.ticker.ring()
        if News.WORK in news:
            self.dispatcher.ring()
        if News.FLOW in news:
            self.advancer.ring()
        if News.EVENTS in news:
            self.sequencer.ring()
        if News.SINKS in news or (News.LOG in news and follows_log):
            self.relay.ring()
        if news & (News.CANCEL | News.LOOK | News.DRAIN):
            self.keeper.ring()

    def pass_on(
        self,
        pulse: Pulse,
        sinks: Sequence[Consumer],
        seconds_until: Callable[[datetime], float],
    ) -> None:
        """Wake loops in time for work that they may not have heard of; `sinks` are those that the
        relay knows."""
        if pulse.wake_at is not None:
            self.ticker.ring_within(seconds_until(pulse.wake_at))
        if pulse.queued:
            self.dispatcher.ring()
        if pulse.ready_at is not None:
            self.dispatcher.ring_within(seconds_until(pulse.ready_at))
        if pulse.flow_at is not None:
            self.advancer.ring_within(seconds_until(pulse.flow_at))
        if pulse.unstamped:
            self.sequencer.ring()
        if pulse.alerts or pulse.sinks != sinks:
            self.relay.ring()
