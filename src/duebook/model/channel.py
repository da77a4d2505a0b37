"""Channels as definitions: how alerts reach people, and how they are shown without secrets.

The address of a hook is itself a secret: anyone who knows it can post there. So only the scheme and
host of a URL are shown.
"""

from __future__ import annotations

import re
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import is_text
from duebook.model.hook_url import check_hook_url, secret_pieces, show_url
from duebook.model.http_target import LONGEST_URL
from duebook.model.secret import HIDDEN, secrets_in, show_text
from duebook.model.sink import check_secret
from duebook.model.smtp_server import TLS_MODES, SmtpServer, check_address, read_smtp_url
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "KINDS",
    "Channel",
    "channel_secrets",
    "keep_channel",
    "load_channel",
    "show_address",
    "show_channel",
]

MOST_RECIPIENTS: Final = 50
MOST_ARGUMENTS: Final = 100
LONGEST_WORD: Final = 10_000
LONGEST_TIMEOUT: Final = timedelta(minutes=5)
PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"
SEVERITIES: Final = ("critical", "error", "warning", "info")
_ROUTING_KEY: Final = re.compile(r"[A-Za-z0-9_-]{8,100}")
_APPRISE: Final = re.compile(r"[a-z][a-z0-9+.-]{0,39}://\S+", re.IGNORECASE)
_EXPLICIT: Final = re.compile(r"(webhook|slack|teams|discord|pagerduty)\+(https?://.*)", re.DOTALL)
_HOSTS: Final = (
    (re.compile(r"hooks\.slack(-gov)?\.com"), "slack"),
    (re.compile(r"((ptb|canary)\.)?discord(app)?\.com"), "discord"),
    (re.compile(r".+\.(webhook\.office|logic\.azure|api\.powerplatform)\.com"), "teams"),
    (re.compile(r"events\.(eu\.)?pagerduty\.com"), "pagerduty"),
)


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to reach people; `options` are those of its kind, with their secrets."""

    kind: str
    options: dict[str, Any] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """As it is stored, with its secrets."""
        return {"kind": self.kind, **self.options}

    def __str__(self) -> str:
        """A short form for people: `slack hooks.slack.com`."""
        match self.kind:
            case "email":
                return f"email {', '.join(self.options['to'])}"
            case "command":
                return f"command {show_text(self.options['command'][0])}"
            case "apprise":
                return f"apprise {self.options['url'].partition(':')[0]}"
        return f"{self.kind} {urlsplit(self.options.get('url', PAGERDUTY)).hostname}"


def load_channel(value: object) -> Channel:
    """A channel from a URL, or from an object with its kind and options; raises Invalid.

    >>> load_channel("mailto:ops@example.com").to_json()
    {'kind': 'email', 'to': ['ops@example.com']}
    >>> print(load_channel("https://hooks.slack.com/services/T0/B0/x"))
    slack hooks.slack.com
    """
    if isinstance(value, Channel):
        return value
    if isinstance(value, str):
        value = _from_url(value)
    if not isinstance(value, dict):
        raise Invalid(
            f"channel {shorten(value)} is not a URL or an object such as "
            '{"kind": "slack", "url": "https://…"}'
        )
    kind = value.get("kind")
    readers = _READERS.get(kind) if isinstance(kind, str) else None
    if readers is None or not isinstance(kind, str):
        raise Invalid(f"channel kind {quoted(kind)} is not one of {', '.join(_READERS)}")
    given = {key: item for key, item in value.items() if key != "kind" and item is not None}
    if unknown := sorted(str(key) for key in given if key not in readers):
        told = f'"{shorten(unknown[0])}" is not an option of a {kind} channel'
        raise Invalid(f"{told}; use one of {', '.join(readers)}")
    if missing := [key for key in _NEEDED[kind] if key not in given]:
        raise Invalid(f'channel of kind {kind} needs "{missing[0]}"')
    options = {key: read(given[key]) for key, read in readers.items() if key in given}
    if kind == "email":
        _check_email(options)
    return Channel(kind, options)


def show_address(form: object) -> str:
    """A stored channel in short form; another version may have stored it."""
    try:
        return str(load_channel(form))
    except Invalid:
        return str(form.get("kind")) if isinstance(form, dict) else "unknown"


def show_channel(channel: Channel) -> dict[str, Any]:
    """As it may be shown: its JSON form without secrets."""
    shown = {key: _shown(channel.kind, key, item) for key, item in channel.options.items()}
    return {"kind": channel.kind, **shown}


def _shown(kind: str, key: str, item: Any) -> Any:
    match key:
        case "secret" | "routing_key" | "password":
            return HIDDEN
        case "url" if kind == "apprise":  # what comes first may be a token
            return f"{item.partition('://')[0]}://{HIDDEN}"
        case "url":
            return show_url(item)
        case "command":
            return [show_text(word) for word in item]
    return item


def keep_channel(value: object, former: Channel | None) -> object:
    """A form that replaces `former`: hidden values are kept if nothing else about their destination
    has changed. Load the result afterwards."""
    if former is None or not isinstance(value, dict) or value.get("kind") != former.kind:
        return value
    shown = show_channel(former)
    if any(
        value.get(key) not in (shown.get(key), former.options.get(key))
        for key in _ENDPOINTS[former.kind]
    ):
        return value
    return {
        key: former.options[key] if _hides(item) and item == shown.get(key) else item
        for key, item in value.items()
    }


def channel_secrets(channel: Channel) -> set[str]:
    """What must not be repeated in the error messages of a channel."""
    options = channel.options
    words = {options[key] for key in ("secret", "routing_key", "password") if key in options}
    if channel.kind == "command":
        words.update(secrets_in(options["command"]))
    elif "url" in options:
        rest = options["url"].partition("://")[2]
        beyond = rest.partition("/")[2] if channel.kind != "apprise" else rest
        words |= secret_pieces(beyond)
    return words


def _hides(item: object) -> bool:
    if isinstance(item, list):
        return any(_hides(word) for word in item)
    return isinstance(item, str) and HIDDEN in item


def _from_url(text: str) -> dict[str, Any]:
    """The form that a URL stands for."""
    scheme = text.partition(":")[0].lower()
    if explicit := _EXPLICIT.fullmatch(text):
        return _of_kind(explicit[1], explicit[2])
    match scheme:
        case "http" | "https":
            return _of_kind(_kind_of(text), text)
        case "mailto":
            return {"kind": "email", "to": text[len("mailto:") :].split(",")}
        case "smtp" | "smtps":
            return _of_mail_server(text)
        case "pagerduty":
            key = text.partition(":")[2].strip("/")
            return {"kind": "pagerduty", "routing_key": key}
        case "apprise":
            return {"kind": "apprise", "url": text[len("apprise:") :]}
    started = f'starts with "{shorten(scheme)}:"' if ":" in text else "is not a URL"
    raise Invalid(
        f"channel {started}; use a URL that starts with https://, mailto:, smtp://, pagerduty: or "
        "apprise:, such as apprise:tgram://TOKEN/CHAT"
    )


def _kind_of(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return next((kind for pattern, kind in _HOSTS if pattern.fullmatch(host)), "webhook")


def _of_kind(kind: str, url: str) -> dict[str, Any]:
    if kind != "pagerduty":
        return {"kind": kind, "url": url}
    address, _, query = url.partition("?")
    pairs = parse_qsl(query)
    key = dict(pairs).get("routing_key")
    if key is None:
        raise Invalid(
            "a URL of PagerDuty has no routing key; use pagerduty:ROUTING_KEY, or add "
            "?routing_key=… to the URL"
        )
    rest = urlencode([pair for pair in pairs if pair[0] != "routing_key"])
    return {"kind": kind, "url": address + (f"?{rest}" if rest else ""), "routing_key": key}


def _of_mail_server(text: str) -> dict[str, Any]:
    server, rest = read_smtp_url(text, "channel")
    form: dict[str, Any] = {"kind": "email", "to": rest.pop("to", "").split(",")}
    if rest:
        raise Invalid(f'channel has an unknown parameter "{shorten(next(iter(rest)))}"')
    form |= {"host": server.host, "port": server.port, "tls": server.tls}
    form |= {"user": server.user, "password": server.password, "from": server.sender}
    return form


def _url(value: object) -> str:
    return check_hook_url("channel url", value)


def _apprise_url(value: object) -> str:
    if isinstance(value, str) and HIDDEN in value:
        raise Invalid(f"channel url contains {HIDDEN}, a placeholder; give the whole URL")
    if isinstance(value, str) and is_text(value, LONGEST_URL) and _APPRISE.fullmatch(value):
        return value
    raise Invalid("channel url is not a URL of Apprise such as tgram://TOKEN/CHAT")


def _hidden_text(part: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value == HIDDEN:
            raise Invalid(
                f"channel {part} is {HIDDEN}, a placeholder for a hidden value, which is kept "
                "only while its server stays the same; give the real value"
            )
        if isinstance(value, str) and value and is_text(value, 500) and value.isprintable():
            return value
        raise Invalid(f"channel {part} is not a string of 1 to 500 characters")

    return read


def _routing_key(value: object) -> str:
    text = _hidden_text("routing_key")(value)
    if not _ROUTING_KEY.fullmatch(text):
        raise Invalid("channel routing_key is not 8 to 100 letters and digits")
    return text


def _choice(part: str, allowed: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise Invalid(f"channel {part} {quoted(value)} is not one of {', '.join(allowed)}")

    return read


def _text(part: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if isinstance(value, str) and value and is_text(value, 500) and value.isprintable():
            return value
        raise Invalid(f"channel {part} {quoted(value)} is not a string of 1 to 500 characters")

    return read


def _port(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_535:
        return value
    raise Invalid(f"channel port {quoted(value)} is not a number from 1 to 65535")


def _recipients(value: object) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not 1 <= len(items) <= MOST_RECIPIENTS:
        raise Invalid(f"channel to is not a list of 1 to {MOST_RECIPIENTS} e-mail addresses")
    return [check_address("channel to", item) for item in items]


def _sender(value: object) -> str:
    return check_address("channel from", value)


def _argv(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_ARGUMENTS:
        raise Invalid("channel command is not a list of a program and its arguments")
    if not value[0] or not all(is_text(word, LONGEST_WORD) for word in value):
        raise Invalid("channel command has a part that is not a string without NUL")
    if _hides([word for word in value if HIDDEN in secrets_in(word)]):
        raise Invalid(
            f"channel command contains {HIDDEN}, a placeholder for a hidden value, which is kept "
            "only while the command stays the same; give the real value"
        )
    return list(value)


def _timeout(value: object) -> str:
    if not isinstance(value, str | timedelta):
        raise Invalid(f"channel timeout {quoted(value)} is not a duration such as 30s")
    length = parse_duration(value)
    if not timedelta(seconds=1) <= length <= LONGEST_TIMEOUT:
        raise Invalid(f"channel timeout {quoted(value)} is not between 1s and 5m")
    return format_duration(length)


def _check_email(options: Mapping[str, Any]) -> None:
    """Without a host, the node's mail server is used, and no other server option is allowed."""
    if "host" in options:
        known = ("host", "port", "tls", "user", "password")
        server = {key: options[key] for key in known if key in options}
        try:
            SmtpServer(**server)
        except Invalid as error:
            raise Invalid(f"channel {error}") from None
    elif extra := [key for key in ("port", "tls", "user", "password") if key in options]:
        raise Invalid(f"channel {extra[0]} needs host; without a host the node's server is used")


_READERS: Final[dict[str, dict[str, Callable[[object], Any]]]] = {
    "webhook": {"url": _url, "secret": check_secret},
    "slack": {"url": _url},
    "teams": {"url": _url},
    "discord": {"url": _url},
    "pagerduty": {
        "routing_key": _routing_key,
        "url": _url,
        "severity": _choice("severity", SEVERITIES),
    },
    "email": {
        "to": _recipients,
        "from": _sender,
        "host": _text("host"),
        "port": _port,
        "tls": _choice("tls", TLS_MODES),
        "user": _text("user"),
        "password": _hidden_text("password"),
    },
    "command": {"command": _argv, "timeout": _timeout},
    "apprise": {"url": _apprise_url},
}
KINDS: Final = tuple(_READERS)
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("webhook", "slack", "teams", "discord", "apprise"), ("url",)),
    "pagerduty": ("routing_key",),
    "email": ("to",),
    "command": ("command",),
}
_ENDPOINTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("webhook", "slack", "teams", "discord", "apprise", "pagerduty"), ("url",)),
    "email": ("host", "port", "tls", "user"),
    "command": ("command",),
}
"""What must be unchanged, as shown, for hidden values to be kept."""
