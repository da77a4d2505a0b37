"""The settings of Kafka that a sink may have: an allow-list, and which of them are secret.

Settings are left out if they run a program or library, read files where relays are, write to their
log, or undo what Duebook promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from duebook.errors import Invalid, quoted, shorten
from duebook.model.fields import is_text
from duebook.model.secret import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "TIMEOUT",
    "TOKEN_URL",
    "asks_for_tokens",
    "check_settings",
    "endpoints_of",
    "kept_settings",
    "show_settings",
]

TIMEOUT: Final = "message.timeout.ms"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting
LONGEST: Final = 100_000
"""Maximum characters, as certificates are long."""
MOST: Final = 100
LONGEST_TIMEOUT: Final = 3_600_000
_SECRET: Final = frozenset(
    {"sasl.password", "ssl.key.pem", "ssl.key.password", "sasl.oauthbearer.client.secret"}
)
_HOW: Final = frozenset(
    {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "ssl.ca.pem", TOKEN_URL}
    | {"enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"}
    | {"ssl.cipher.suites"}
)
"""Settings that decide who gets the secrets, and how well they are protected on the way."""
_IDENTITY: Final = frozenset(
    {"sasl.username", "ssl.certificate.pem", "sasl.oauthbearer.client.id"}
    | {"sasl.oauthbearer.method", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"}
)
_TUNING: Final = frozenset(
    {"acks", "request.required.acks", "client.id", "compression.type", "compression.codec"}
    | {"compression.level", "linger.ms", "queue.buffering.max.ms", "queue.buffering.max.messages"}
    | {"queue.buffering.max.kbytes", "batch.size", "batch.num.messages", TIMEOUT, "partitioner"}
    | {"message.max.bytes", "max.in.flight", "max.in.flight.requests.per.connection"}
    | {"retries", "message.send.max.retries", "retry.backoff.ms", "retry.backoff.max.ms"}
    | {"request.timeout.ms", "socket.timeout.ms", "socket.keepalive.enable"}
    | {"socket.nagle.disable", "socket.connection.setup.timeout.ms", "connections.max.idle.ms"}
    | {"reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms"}
    | {"topic.metadata.refresh.interval.ms", "broker.address.family", "broker.address.ttl"}
    | {"client.dns.lookup", "allow.auto.create.topics", "sticky.partitioning.linger.ms"}
)
ALLOWED: Final = _SECRET | _HOW | _IDENTITY | _TUNING
_OURS: Final = frozenset(
    {"bootstrap.servers", "delivery.timeout.ms", "enable.gapless.guarantee", "enable.idempotence"}
    | {"metadata.broker.list", "transactional.id"}
)
_EXECUTED: Final = frozenset(
    {"plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers"}
)
_CHOICES: Final = {
    **dict.fromkeys(
        ("sasl.mechanism", "sasl.mechanisms"),
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    ),
    "security.protocol": ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    "sasl.oauthbearer.method": ("oidc",),
}
"""GSSAPI is left out: it runs kinit, with the values of settings in a shell command."""


def check_settings(value: object) -> dict[str, str]:
    """Settings as they are stored; raises Invalid that names one and what is right."""
    if not isinstance(value, dict) or len(value) > MOST:
        raise Invalid(f"sink config {shorten(value)} is not an object of up to {MOST} settings")
    for name, item in value.items():
        _check(name, item)
    if "sasl.mechanism" in value and "sasl.mechanisms" in value:
        raise Invalid('sink config has "sasl.mechanism" and "sasl.mechanisms"; keep one of them')
    protocol = str(value.get("security.protocol", ""))
    if protocol.lower().startswith("sasl") and not _mechanism(value):
        known = ", ".join(_CHOICES["sasl.mechanisms"])
        raise Invalid(f'sink config has no "sasl.mechanisms"; set it to one of {known}')
    return {name: _word(item) for name, item in value.items()}


def _mechanism(settings: Mapping[Any, Any]) -> str:
    found = settings.get("sasl.mechanisms") or settings.get("sasl.mechanism") or ""
    return str(found).upper()


def asks_for_tokens(settings: Mapping[Any, Any]) -> bool:
    """Whether brokers require a token from the token endpoint."""
    return TOKEN_URL in settings and _mechanism(settings) == "OAUTHBEARER"


def _check(name: object, value: object) -> None:
    if not is_text(name, 200) or not isinstance(value, str | int | float | bool):
        raise Invalid(f'sink config "{shorten(name)}" is not a setting with a string or number')
    if not is_text(str(value), LONGEST):
        raise Invalid(f'sink config "{shorten(name)}" has more than {LONGEST:,} characters')
    if name not in ALLOWED:
        raise Invalid(f'sink config "{shorten(name)}" is not allowed: {_why(str(name))}')
    if value == HIDDEN:
        told = f'sink config "{name}" is {HIDDEN}, a placeholder for a hidden value,'
        raise Invalid(
            f"{told} which is kept only while servers and endpoints stay the same; give the real "
            "value"
        )
    _check_value(str(name), value)


def _why(name: str) -> str:
    if name in _OURS:
        return "Duebook sets it"
    if name in _EXECUTED or name.startswith("sasl.kerberos."):
        return "it would run a program or library on the machines of the relays"
    if name.endswith((".location", ".file", ".path")):
        return (
            "it reads a file on the machines of the relays; use ssl.ca.pem, ssl.certificate.pem "
            "or ssl.key.pem"
        )
    return "docs/events.md lists the allowed settings"


def _check_value(name: str, value: object) -> None:
    if name == TIMEOUT and not _is_timeout(value):
        raise Invalid(
            f'sink config "{TIMEOUT}" {quoted(value)} is not a whole number from 1 to '
            f"{LONGEST_TIMEOUT:,}"
        )
    if name == "partitioner" and value == "random":
        raise Invalid('sink config "partitioner" "random" would break the order of each key')
    choices = _CHOICES.get(name)
    if choices is not None and str(value).upper() not in map(str.upper, choices):
        raise Invalid(f'sink config "{name}" {quoted(value)} is not one of {", ".join(choices)}')
    if name == TOKEN_URL:
        _check_url(str(value))


def _check_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or not text.isprintable():
        raise Invalid(f'sink config "{TOKEN_URL}" {quoted(text)} is not an http:// or https:// URL')
    if parts.username is not None or parts.query:
        told = f'sink config "{TOKEN_URL}" has a name, a password or a query'
        raise Invalid(f"{told}; use sasl.oauthbearer.client.id and client.secret")


def _is_timeout(value: object) -> bool:
    text = str(value)
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(LONGEST_TIMEOUT))
    return digits and 1 <= int(text) <= LONGEST_TIMEOUT


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Without secrets, and without certificates, which are long."""
    hidden = {name for name in settings if name not in ALLOWED - _SECRET or name.endswith(".pem")}
    return {name: HIDDEN if name in hidden else text for name, text in settings.items()}


def kept_settings(
    given: Mapping[Any, Any], servers: object, former: Mapping[str, Any]
) -> dict[Any, Any]:
    """New settings, with `***` replaced by the former values if all endpoints stay the same."""
    known: Mapping[str, str] = former.get("config") or {}
    kept = {
        name: known.get(name, value) if value == HIDDEN else value for name, value in given.items()
    }
    before = endpoints_of(former.get("servers"), known)
    return kept if endpoints_of(servers, kept) == before else dict(given)


def endpoints_of(servers: object, settings: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Where secrets are sent, and how; hidden values are kept only if this is unchanged."""
    how = {str(name): _word(settings[name]) for name in settings if name in _HOW}
    if "sasl.mechanism" in how:
        how["sasl.mechanisms"] = how.pop("sasl.mechanism")
    return (servers, sorted(how.items()))
