"""Sends alerts as e-mail: passes each message to a mail server, over a connection to a permitted
address and with a time limit."""

from __future__ import annotations

import contextlib
import hashlib
import io
import smtplib
import socket
import ssl
import time
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpcore2

from duebook.errors import Invalid, Unavailable, shorten
from duebook.model.smtp_server import PORTS, SmtpServer
from duebook.sinks.channels.answers import MessageRefused, cut, plain
from duebook.targets.http import verified
from duebook.targets.outbound import Interrupted, OutboundConnections, Refused
from duebook.targets.processes import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.alert_message import AlertMessage
    from duebook.model.channel import Channel
    from duebook.sinks.channels import ChannelSetup

__all__ = ["Envelope", "SmtpChannel", "hand_over", "mail_of"]

ANYWHERE: Final = (ip_network("0.0.0.0/0"), ip_network("::/0"))
LONGEST_REASON: Final = 200
LONGEST_SUBJECT: Final = 200
_READY: Final = 220


class Envelope(NamedTuple):
    """A message with its sender and recipients."""

    sender: str
    recipients: list[str]
    mail: bytes


class SmtpChannel:
    """Uses a connection for each message: alerts are rare, and servers close idle connections."""

    def __init__(self, channel: Channel, setup: ChannelSetup, hide: Callable[[str], str]) -> None:
        self._server, self._trusted = _server(channel, setup)
        sender = channel.options.get("from") or self._server.sender
        if sender is None:
            raise Invalid(
                "this e-mail has no sender; give from, or add ?from=… to the setting smtp_url"
            )
        self._sender: str = sender
        self._recipients: list[str] = channel.options["to"]
        self._setup = setup
        self._hide = hide
        self._stop = Stop()

    def send(self, message: AlertMessage) -> None:
        mail = mail_of(message, self._sender, self._recipients)
        try:
            self._hand_over(mail.as_bytes(policy=SMTP_POLICY))
        except Refused as error:
            told = f"no connection to {self._server.host}: {error}"
            raise Unavailable(f"{told}; the setting http_allow can allow it") from None
        except Interrupted as error:
            told = "it did not respond in time" if error.reason == "timeout" else error.reason
            raise Unavailable(told) from None
        except smtplib.SMTPRecipientsRefused as error:
            code, text = min(error.recipients.values(), key=lambda answer: answer[0])
            raise self._refusal(code, text) from None
        except smtplib.SMTPResponseException as error:
            raise self._refusal(error.smtp_code, error.smtp_error) from None
        except smtplib.SMTPNotSupportedError as error:
            raise MessageRefused(self._told(error)) from None
        except ssl.SSLError as error:
            told = getattr(error, "verify_message", "") or error.reason or str(error)
            raise Unavailable(f"no secure connection to {self._server.host}: {told}") from None
        except (smtplib.SMTPException, httpcore2.NetworkError, OSError) as error:
            raise Unavailable(self._told(error)) from None

    def _hand_over(self, mail: bytes) -> None:
        allowed = ANYWHERE if self._trusted else self._setup.allowed
        deadline = time.monotonic() + self._setup.timeout
        network = OutboundConnections(self._stop, deadline, allowed, self._setup.resolver)
        _hand_over(self._server, Envelope(self._sender, self._recipients, mail), network)

    def _refusal(self, code: int, text: bytes | str) -> Unavailable | MessageRefused:
        """4xx is temporary, 5xx permanent."""
        said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        told = f"the mail server returned {code}: {shorten(self._hide(said), LONGEST_REASON)}"
        return Unavailable(told) if 400 <= code < 500 else MessageRefused(told)

    def _told(self, error: Exception) -> str:
        return shorten(self._hide(f"mail server {self._server.host}: {error}"), LONGEST_REASON)

    def interrupt(self) -> None:
        self._stop.set("shutdown")


def hand_over(server: SmtpServer, envelope: Envelope, timeout: float) -> None:
    """Send one message, whatever the server's address is; raises Unavailable."""
    with Stop() as stop:
        network = OutboundConnections(stop, time.monotonic() + timeout, ANYWHERE)
        try:
            _hand_over(server, envelope, network)
        except Interrupted as error:
            told = "did not respond in time" if error.reason == "timeout" else error.reason
            raise Unavailable(f"mail server {server.host} {told}") from None
        except (smtplib.SMTPException, httpcore2.NetworkError, OSError) as error:
            told = f"mail server {server.host}: {error}"
            raise Unavailable(shorten(told, LONGEST_REASON)) from None


def _hand_over(server: SmtpServer, envelope: Envelope, network: OutboundConnections) -> None:
    context = verified()
    stream = network.connect_tcp(server.host, server.port)
    with contextlib.closing(_Client(stream)) as client:
        if server.tls == "tls":
            client.secure(context, server.host)
        client.connect(server.host, server.port)
        if server.tls == "starttls":
            client.begin_tls(context, server.host)
        if server.user is not None:
            client.login(server.user, server.password or "")
        client.sendmail(envelope.sender, envelope.recipients, envelope.mail)
        with contextlib.suppress(Exception):  # it already has the message
            client.quit()


def _server(channel: Channel, setup: ChannelSetup) -> tuple[SmtpServer, bool]:
    """The server, and whether the node's operator configured its address, which is then allowed."""
    options = channel.options
    if "host" not in options:
        if setup.smtp is None:
            raise Invalid(
                "this node has no mail server; set smtp_url (DUEBOOK_SMTP_URL), or give the "
                "channel a host"
            )
        return setup.smtp, True
    tls = options.get("tls", "starttls")
    given = {key: options[key] for key in ("user", "password") if key in options}
    return SmtpServer(options["host"], options.get("port", PORTS[tls]), tls, **given), False


def mail_of(message: AlertMessage, sender: str, recipients: list[str]) -> EmailMessage:
    """The e-mail; messages about the same problem form one conversation."""
    domain = sender.rpartition("@")[2]
    thread = hashlib.sha256(f"{message.namespace} {message.dedup_key}".encode()).hexdigest()[:32]
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["Subject"] = cut(plain(message.title).replace("\n", " "), LONGEST_SUBJECT)
    mail["From"] = f"Duebook <{sender}>"
    mail["To"] = ", ".join(recipients)
    mail["Date"] = format_datetime(message.at)
    mail["Message-ID"] = f"<{message.id}@{domain}>"
    mail["In-Reply-To"] = mail["References"] = f"<{thread}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    link = "" if message.link is None else f"\n\n{message.link}"
    mail.set_content(f"{plain(message.text)}{link}\n")
    return mail


class _Client(smtplib.SMTP):
    """The standard library's client on our own stream, which never blocks by itself."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        name = socket.gethostname()
        super().__init__(local_hostname=name if "." in name else "[127.0.0.1]")
        self._stream = stream

    def _get_socket(self, *_: Any) -> Any:
        return _SocketLike(self._stream)

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Discard everything received before TLS: an attacker may have inserted it."""
        self._stream = self._stream.start_tls(context, host)
        self.sock = self._get_socket()
        self.file = None
        self.helo_resp = self.ehlo_resp = None
        self.esmtp_features = {}
        self.does_esmtp = False

    def begin_tls(self, context: ssl.SSLContext, host: str) -> None:
        self.ehlo_or_helo_if_needed()
        if not self.has_extn("starttls"):
            raise smtplib.SMTPNotSupportedError(
                "it does not offer STARTTLS; use tls: tls, or tls: none"
            )
        code, text = self.docmd("STARTTLS")
        if code != _READY:
            raise smtplib.SMTPResponseException(code, text)
        self.secure(context, host)

    def close(self) -> None:
        super().close()
        self._stream.close()


class _SocketLike:
    """The part of a socket's interface that the client needs."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def sendall(self, data: bytes) -> None:
        self._stream.write(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._stream))

    def close(self) -> None:
        self._stream.close()


class _Reader(io.RawIOBase):
    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)
