"""A mail server for outgoing messages, as a value: from the setting `smtp_url`, or from options."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass

__all__ = ["TLS_MODES", "SmtpServer", "check_address", "load_smtp_url", "read_smtp_url"]

TLS_MODES: Final = ("starttls", "tls", "none")
PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_FORM: Final = "smtp://user:password@mail.example.com:587?from=duebook@example.com"


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Where mail is sent through, how the connection is secured, and the sender's address."""

    host: str
    port: int = 587
    tls: str = "starttls"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str | None = None

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host):
            raise Invalid(f"host {quoted(self.host)} is not the name of a mail server")
        if self.tls not in TLS_MODES:
            raise Invalid(f"tls {quoted(self.tls)} is not one of {', '.join(TLS_MODES)}")
        if not 1 <= self.port <= 65_535:
            raise Invalid(f"port {self.port} is not a number from 1 to 65535")
        if (self.user is None) != (self.password is None):
            raise Invalid("user and password go together; give both, or neither")
        if self.password is not None and self.tls == "none":
            raise Invalid('tls "none" would send the password as plain text; use starttls or tls')


def check_address(part: str, value: object) -> str:
    """The address of a mailbox; raises Invalid."""
    if isinstance(value, str) and _ADDRESS.fullmatch(value):
        return value
    raise Invalid(f"{part} {quoted(value)} is not an e-mail address such as ops@example.com")


def load_smtp_url(text: str | None) -> SmtpServer | None:
    """From the setting `smtp_url`; raises Invalid. None: there is no mail server."""
    if not text:
        return None
    server, rest = read_smtp_url(text, "smtp_url")
    if rest:
        raise Invalid(f'smtp_url has an unknown parameter "{shorten(next(iter(rest)))}"')
    return server


def read_smtp_url(text: str, part: str) -> tuple[SmtpServer, dict[str, str]]:
    """The server, and the other parts of the URL; its secrets never appear in messages."""
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("smtp", "smtps") or parts.path.strip("/"):
        raise Invalid(f"{part} does not have the form {_FORM}")
    query = dict(parse_qsl(parts.query))
    tls = query.pop("tls", "tls" if parts.scheme == "smtps" else "starttls")
    sender = query.pop("from", None)
    if tls not in TLS_MODES:
        raise Invalid(f"{part}: tls {quoted(tls)} is not one of {', '.join(TLS_MODES)}")
    try:
        server = SmtpServer(
            host,
            PORTS[tls] if port is None else port,
            tls,
            None if parts.username is None else unquote(parts.username),
            None if parts.password is None else unquote(parts.password),
            None if sender is None else check_address("from", sender),
        )
    except Invalid as error:
        raise Invalid(f"{part}: {error}") from None
    return server, query
