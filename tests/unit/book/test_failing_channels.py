"""What readiness says about channels at which alerts do not arrive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from duebook.book.readiness import MOST_NAMED, _channels
from duebook.model.node import why_unserved
from duebook.store.health_values import ChannelHealth

FINE = ChannelHealth("default", "duebook.alerts.a", "email ops@example.com")


def node(*roles: str, refused: dict[str, str] | None = None) -> Any:
    return SimpleNamespace(roles=roles or ("relay",), unserved={"default": refused or {}})


def told(*channels: ChannelHealth, nodes: Any = None) -> list[str]:
    live = [node()] if nodes is None else nodes
    health = cast("Any", SimpleNamespace(channels=channels, nodes=live))
    return [problem.message for problem in _channels(health)]


def test_nothing_is_said_about_a_channel_that_accepts_what_it_gets() -> None:
    assert told(FINE) == []


def test_only_a_channel_that_refused_alerts_for_good_has_some_to_send_again() -> None:
    down, refusing = told(
        FINE._replace(error="it returned 503"),
        ChannelHealth("shop", "duebook.alerts.b", "slack hooks.slack.com", 2),
    )
    assert down == (
        "alerts do not arrive at email ops@example.com: it returned 503; "
        "its rules are failing in: duebook alert ls"
    )
    assert ": 2 alerts refused; " in refusing
    assert "duebook --namespace shop events dlq duebook.alerts.b --replay" in refusing


def test_a_channel_that_no_live_relay_can_serve_is_told_with_the_reason() -> None:
    refused = {FINE.name: "this node has no mail server"}
    (message,) = told(FINE, nodes=(node(refused=refused), node(refused=refused)))
    assert "no live node can send them: this node has no mail server" in message
    assert told(FINE, nodes=(node(refused=refused), node())) == []
    assert told(FINE, nodes=(node(refused=refused), node("worker"))) == [message]


def test_without_a_relay_no_channel_is_blamed() -> None:
    (message,) = told(FINE, nodes=(node("scheduler", "worker"),))
    assert message.startswith("no live node has the role relay")
    assert why_unserved([], "default", FINE.name) is None
    assert told(nodes=()) == []


def test_of_many_failing_channels_the_first_are_named() -> None:
    messages = told(*[FINE._replace(error="down")] * (MOST_NAMED + 2))
    assert len(messages) == MOST_NAMED + 1
    assert messages[-1].startswith("alerts do not arrive at 2 more channels")
