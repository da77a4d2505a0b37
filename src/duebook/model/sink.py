"""Sinks as definitions: where events are published, and what may be shown of that."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from duebook.errors import Invalid, quoted, shorten
from duebook.model.event import check_topic
from duebook.model.http_target import LONGEST_URL
from duebook.model.kafka_settings import check_settings, kept_settings, show_settings
from duebook.model.ping import show_urls
from duebook.model.secret import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ATTEMPTS",
    "SECRET_PREFIX",
    "check_secret",
    "keep_options",
    "load_options",
    "show_options",
]

ATTEMPTS: Final = 10
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how secrets of webhooks begin
SHORTEST_SECRET: Final = 16


def load_options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a sink in stored form; raises Invalid that names the part."""
    readers = _READERS.get(kind)
    if readers is None:
        raise Invalid(f"sink kind {quoted(kind)} is not one of {', '.join(_READERS)}")
    if unknown := sorted(str(key) for key in options if key not in readers):
        known = ", ".join(readers)
        raise Invalid(
            f'"{shorten(unknown[0])}" is not an option of a {kind} sink; use one of {known}'
        )
    return {
        key: read(options.get(key)) for key, read in readers.items() if _given(kind, key, options)
    }


def _given(kind: str, key: str, options: dict[str, Any]) -> bool:
    return options.get(key) is not None or (kind, key) in _NEEDED


def keep_options(
    kind: str, options: Mapping[str, Any], former: Mapping[str, Any]
) -> dict[str, Any]:
    """Options that replace `former` ones; hidden values are kept.

    Secrets are kept only if the endpoints that received them stay the same. The secret of a webhook
    is kept when none is given; a new one is created if there was none, and for another host.
    """
    kept = dict(options)
    if kind == "webhook" and kept.get("secret") in (None, HIDDEN):
        if not former or _origin(kept.get("url")) == _origin(former.get("url")):
            kept["secret"] = former.get("secret") or _new_secret()
        elif kept.get("secret") is None:
            kept["secret"] = _new_secret()
    if kind == "kafka" and isinstance(config := kept.get("config"), dict):
        kept["config"] = kept_settings(config, kept.get("servers"), former)
    return kept


def _origin(url: object) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(str(url))
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname, port


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def show_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a sink as they may be shown."""
    return {key: _shown(key, value) for key, value in options.items()}


def _shown(key: str, value: Any) -> Any:
    if key == "secret":
        return HIDDEN
    if key == "config":
        return show_settings(value)
    if key == "urls":
        return show_urls(value)
    return value


def _url(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_URL or not value.isprintable():
        raise Invalid(f"sink url {quoted(value)} is not a URL")
    try:
        parts = urlsplit(value)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        raise Invalid(f"sink url {quoted(value)} is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_right:
        raise Invalid(
            f"sink url {quoted(value)} does not start with http:// or https:// and a host"
        )
    if parts.username is not None:
        raise Invalid(
            "sink url contains a user name or password; receivers authenticate Duebook by its "
            "signature"
        )
    return value


def check_secret(value: object) -> str:
    """The secret for signatures of a webhook; raises Invalid."""
    text = value if isinstance(value, str) else ""
    if text == HIDDEN:
        told = f"secret is {HIDDEN}, a placeholder for the secret of another host"
        raise Invalid(f"{told}; give one, or leave it out to create one")
    try:
        raw = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not text.startswith(SECRET_PREFIX) or len(raw) < SHORTEST_SECRET:
        raise Invalid(
            f"secret must be {SECRET_PREFIX} followed by at least {SHORTEST_SECRET} bytes as base64"
        )
    return text


def _servers(value: object) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= 2_000:
        return value
    raise Invalid(
        f"sink servers {quoted(value)} does not have the form HOST:PORT, or several of these "
        "separated by commas"
    )


def _prefix(value: object) -> str:
    return check_topic(value, "sink prefix")


_READERS: Final[dict[str, dict[str, Any]]] = {
    "webhook": {"url": _url, "secret": check_secret},
    "kafka": {"servers": _servers, "prefix": _prefix, "config": check_settings},
}
_NEEDED: Final = {("webhook", "url"), ("webhook", "secret"), ("kafka", "servers")}
