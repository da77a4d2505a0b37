"""Carries alerts to people: each file knows one kind of channel, and this one opens them.

What leaves the machine goes to judged addresses only; commands run below the node's spawner.
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
    """A channel that is open; `send` is for one thread, `interrupt` for any."""

    def send(self, message: AlertMessage) -> None:
        """Raises Unavailable to try again later, MessageRefused for what is not accepted."""

    def interrupt(self) -> None:
        """Break off what is under way, and send nothing more."""


@dataclass(frozen=True, slots=True)
class ChannelSetup:
    """What a node lends to its channels."""

    allowed: tuple[Network, ...] = ()
    """networks that are not public but may be reached"""
    smtp: SmtpServer | None = None
    """the mail server for channels that name none"""
    spawner: Spawner | None = None
    """what starts commands that people define; None: this node starts none of this namespace"""
    helper: Spawner | None = None
    """what starts our own programs"""
    timeout: float = TIMEOUT
    """seconds for one message"""
    resolver: Resolver = resolve


def open_channel(channel: Channel, setup: ChannelSetup) -> Sender:
    """Raises Invalid for what this node cannot do; what it needs is imported here."""
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
