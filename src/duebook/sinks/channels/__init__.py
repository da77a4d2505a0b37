"""Sends alerts to people: each file handles one kind of channel, and this one opens them.

Traffic that leaves the machine goes only to permitted addresses; commands run under the node's
spawner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from duebook.errors import Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.channel import channel_secrets
from duebook.sinks.channels.answers import MessageRefused
from duebook.targets.hiding import hiding
from duebook.targets.outbound import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.alert_message import AlertMessage
    from duebook.model.channel import Channel
    from duebook.model.smtp_server import SmtpServer
    from duebook.targets.addresses import Network
    from duebook.targets.outbound import Resolver
    from duebook.targets.spawner import Spawner

__all__ = ["ChannelSetup", "MessageRefused", "Sender", "open_channel"]

TIMEOUT: Final = 30.0


class Sender(Protocol):
    """An open channel; `send` is called by one thread, `interrupt` by any."""

    def send(self, message: AlertMessage) -> None:
        """Raises Unavailable to retry later, MessageRefused if the message is not accepted."""

    def interrupt(self) -> None:
        """Abort the current message, and send no more."""


@dataclass(frozen=True, slots=True)
class ChannelSetup:
    """What a node provides to its channels."""

    allowed: tuple[Network, ...] = ()
    """networks that are not public but may be connected to"""
    smtp: SmtpServer | None = None
    """the mail server of channels without their own"""
    spawner: Spawner | None = None
    """starts commands of channels; None: this node runs no commands of this namespace"""
    helper: Spawner | None = None
    """starts our own programs"""
    timeout: float = TIMEOUT
    """seconds for one message"""
    resolver: Resolver = resolve


def open_channel(channel: Channel, setup: ChannelSetup) -> Sender:
    """Raises Invalid for what this node cannot do; modules are imported here when needed."""
    hide = hiding(channel_secrets(channel))
    return _OPENERS[channel.kind](channel, setup, hide)


def _open_webhook(channel: Channel, setup: ChannelSetup, hide: Callable[[str], str]) -> Sender:
    from duebook.sinks.channels.webhook import WebhookChannel
    from duebook.targets.posting import Poster

    poster = Poster(setup.allowed, setup.timeout, setup.resolver)
    return WebhookChannel(channel.options["url"], channel.options.get("secret"), poster, hide)


def _open_hook(channel: Channel, setup: ChannelSetup, hide: Callable[[str], str]) -> Sender:
    from duebook.sinks.channels.hooks import HookChannel
    from duebook.targets.posting import Poster

    poster = Poster(setup.allowed, setup.timeout, setup.resolver)
    return HookChannel(channel, poster, hide)


def _open_email(channel: Channel, setup: ChannelSetup, hide: Callable[[str], str]) -> Sender:
    from duebook.sinks.channels.smtp import SmtpChannel

    return SmtpChannel(channel, setup, hide)


def _open_command(channel: Channel, setup: ChannelSetup, hide: Callable[[str], str]) -> Sender:
    from duebook.sinks.channels.command import CommandChannel

    if setup.spawner is None:
        raise Invalid("this node starts no commands of this namespace")
    return CommandChannel(channel, setup.spawner, hide)


def _open_apprise(channel: Channel, setup: ChannelSetup, hide: Callable[[str], str]) -> Sender:
    from duebook.sinks.channels.apprise_urls import AppriseChannel

    return AppriseChannel(channel.options["url"], setup, hide)


_OPENERS: Final = {
    "webhook": _open_webhook,
    **dict.fromkeys(("slack", "teams", "discord", "pagerduty"), _open_hook),
    "email": _open_email,
    "command": _open_command,
    "apprise": _open_apprise,
}
