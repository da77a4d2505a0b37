"""Sinks as definitions: where events are published, what of it may be shown."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from duebook.errors import Invalid, quoted, shorten
from duebook.model.event import check_topic
from duebook.model.fields import is_text
from duebook.model.http_target import LONGEST_URL
from duebook.model.secret import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ATTEMPTS", "SECRET_PREFIX", "keep_options", "load_options", "show_options"]

ATTEMPTS: Final = 10
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how secrets of webhooks begin
SHORTEST_SECRET: Final = 16
MOST_SETTINGS: Final = 100
LONGEST_SETTING: Final = 100_000
"""Characters: certificates are long."""
TIMEOUT: Final = "message.timeout.ms"
LONGEST_TIMEOUT: Final = 3_600_000
_PUBLIC: Final = frozenset(
    {"acks", "client.id", "compression.type", "linger.ms", "message.timeout.ms", "sasl.mechanism"}
    | {"sasl.mechanisms", "sasl.username", "security.protocol", "ssl.ca.location"}
)
"""Settings of Kafka whose values are never secret."""
_OURS: Final = frozenset(
    {"bootstrap.servers", "delivery.timeout.ms", "enable.gapless.guarantee", "enable.idempotence"}
    | {"metadata.broker.list", "transactional.id"}
)
_EXECUTED: Final = frozenset(
    {"plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers"}
)


def load_options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a sink as they are kept; raises Invalid that names the part."""
    readers = _READERS.get(kind)
    if readers is None:
        raise Invalid(f"sink kind {quoted(kind)} is not one of {', '.join(_READERS)}")
    if unknown := sorted(str(key) for key in options if key not in readers):
        known = ", ".join(readers)
        raise Invalid(f'"{shorten(unknown[0])}" is no option of a {kind} sink; known are {known}')
    return {
        key: read(options.get(key)) for key, read in readers.items() if _given(kind, key, options)
    }


def _given(kind: str, key: str, options: dict[str, Any]) -> bool:
    return options.get(key) is not None or (kind, key) in _NEEDED


def keep_options(
    kind: str, options: Mapping[str, Any], former: Mapping[str, Any]
) -> dict[str, Any]:
    """Options that replace `former` ones: what they hide stays as it is.

    The secret of a webhook stays when none is given, and a first one is made. What Kafka's
    settings hide stays only with the same servers, for these are told.
    """
    kept = dict(options)
    if kind == "webhook" and kept.get("secret") in (None, HIDDEN):
        kept["secret"] = former.get("secret") or _new_secret()
    if kind == "kafka" and isinstance(config := kept.get("config"), dict):
        same = kept.get("servers") == former.get("servers")
        known = former.get("config", {}) if same else {}
        kept["config"] = {
            name: known.get(name, value) if value == HIDDEN else value
            for name, value in config.items()
        }
    return kept


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def show_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a sink as they may be shown."""
    return {key: _shown(key, value) for key, value in options.items()}


def _shown(key: str, value: Any) -> Any:
    if key == "secret":
        return HIDDEN
    if key == "config":
        return {name: text if name in _PUBLIC else HIDDEN for name, text in value.items()}
    return value


def _url(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_URL or not value.isprintable():
        raise Invalid(f"sink url {quoted(value)} is no URL")
    try:
        parts = urlsplit(value)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        raise Invalid(f"sink url {quoted(value)} is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_right:
        raise Invalid(
            f"sink url {quoted(value)} does not begin with http:// or https:// and a host"
        )
    if parts.username is not None:
        raise Invalid("sink url has a name or password; receivers know us by the signature")
    return value


def _secret(value: object) -> str:
    text = value if isinstance(value, str) else ""
    try:
        raw = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not text.startswith(SECRET_PREFIX) or len(raw) < SHORTEST_SECRET:
        raise Invalid(
            f"sink secret is not {SECRET_PREFIX} and at least {SHORTEST_SECRET} bytes as base64"
        )
    return text


def _servers(value: object) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= 2_000:
        return value
    raise Invalid(f"sink servers {quoted(value)} is not HOST:PORT, or several separated by commas")


def _prefix(value: object) -> str:
    return check_topic(value, "sink prefix")


def _config(value: object) -> dict[str, str]:
    if (
        isinstance(value, dict)
        and len(value) <= MOST_SETTINGS
        and all(
            isinstance(k, str) and isinstance(v, str | int | float | bool) for k, v in value.items()
        )
    ):
        for name, item in value.items():
            _refuse_setting(name, item)
        return {key: _word(item) for key, item in value.items()}
    raise Invalid(f"sink config {shorten(value)} is no object of settings of librdkafka")


def _refuse_setting(name: str, value: object) -> None:
    if name in _OURS:
        raise Invalid(f'sink config "{name}" is set by Duebook, which counts on it')
    if name in _EXECUTED:
        raise Invalid(f'sink config "{name}" would run a program or library where relays are')
    if not is_text(name, 200) or not is_text(str(value), LONGEST_SETTING):
        raise Invalid(f'sink config "{shorten(name)}" is no setting of up to 100,000 characters')
    if name == TIMEOUT and not _is_timeout(value):
        raise Invalid(
            f'sink config "{TIMEOUT}" {quoted(value)} is no whole number 1 to {LONGEST_TIMEOUT:,}'
        )
    if name == "partitioner" and value == "random":
        raise Invalid('sink config "partitioner" "random" would undo the order of each key')
    if value == HIDDEN:
        raise Invalid(f'sink config "{shorten(name)}" is {HIDDEN}, which hides a value; give it')


def _is_timeout(value: object) -> bool:
    text = str(value)
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(LONGEST_TIMEOUT))
    return digits and 1 <= int(text) <= LONGEST_TIMEOUT


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_READERS: Final[dict[str, dict[str, Any]]] = {
    "webhook": {"url": _url, "secret": _secret},
    "kafka": {"servers": _servers, "prefix": _prefix, "config": _config},
}
_NEEDED: Final = {("webhook", "url"), ("webhook", "secret"), ("kafka", "servers")}
