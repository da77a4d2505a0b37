"""Reads the requests of steps: what they send, and where they go, which values cannot choose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from duebook.errors import Invalid, shorten
from duebook.flows.commands import words_of
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, text_of
from duebook.flows.timing import read_seconds
from duebook.flows.variables import check_value, readable, walk
from duebook.flows.words import HTTP
from duebook.model.fields import read_flag
from duebook.model.http_target import HttpTarget, origin_of
from duebook.model.secret_values import names_in
from duebook.model.target import load_target

if TYPE_CHECKING:
    from datetime import timedelta

    from duebook.flows.references import Scope

__all__ = ["read_http", "read_request", "request_timeout"]


def read_request(form: Any, scope: Scope) -> HttpTarget:
    """A request whose strings are templates, except for its destination."""
    if isinstance(form, dict) and not form.get("url"):
        raise Invalid("http has no url; add `url: https://example.com`")
    try:
        target = load_target({"http": walk(form, replace(scope, secrets=True))})
    except Invalid as error:
        raise Invalid(readable(str(error))) from None
    assert isinstance(target, HttpTarget)  # noqa: S101 - because of its form
    check_value(origin_of(target.url), scope, "http url, before its path,")
    if names_in(origin_of(target.url)):
        raise Invalid("http url, before its path, names a secret; write the host literally")
    return target


def read_http(section: Section, config: Node | None, scope: Scope) -> HttpTarget:
    """A request in Dagu's form: in the config, or as `command: GET https://…`."""
    form: dict[str, Any] = {}
    if (command := section.get("command")) is not None:
        words = words_of("command", command)
        if len(words) != 2:
            raise Invalid(f"command {shorten(plain(command))} is not a method and a url")
        form["method"], form["url"] = words
    if (script := section.get("script")) is not None:
        form["body"] = plain(script)
    if config is not None:
        inner = Section(config, section.at("config"), section.problems, HTTP)
        for key in ("url", "method", "headers", "body"):
            if (node := inner.get(key)) is not None:
                form[key] = plain(node)
        if (shaped := inner.get("json")) is not None and "output" in section:
            told = "the output of a request is its status, and its body as `json` or `text`"
            inner.problem(shaped, "json", told, "delete the key, and name these parts")
        if inner.read("skip_tls_verify", read_flag, default=False):
            at = inner.get("skip_tls_verify") or config
            hint = "let the worker trust the certificate with SSL_CERT_FILE, or use curl -k"
            inner.problem(at, "skip_tls_verify", "certificates are always verified", hint)
        if (query := inner.get("query")) is not None:
            form["url"] = _with_query(str(form.get("url", "")), plain(query))
    return read_request(form, scope)


def _with_query(url: str, query: Any) -> str:
    """The URL with query parameters; their values are encoded when they are filled in."""
    if not isinstance(query, dict):
        raise Invalid(f"query {shorten(query)} is not a mapping of names and values")
    texts = [f"{quote_plus(name)}={_encoded(name, value)}" for name, value in query.items()]
    return f"{url}{'&' if '?' in url else '?'}{'&'.join(texts)}" if texts else url


def _encoded(name: str, value: Any) -> str:
    text = text_of(f"query.{name}", value)
    if "{{" in text or "$" in text:
        raise Invalid(
            f'query.{shorten(name)} contains a value; put it in the url, as "?{name}=${{NAME}}"'
        )
    return quote_plus(text)


def request_timeout(section: Section) -> timedelta | None:
    """The timeout in the config of a request."""
    node = section.get("executor")
    config = section.get("config")
    if node is not None and isinstance(node.value, dict):
        config = node.value.get("config")
    if config is None or not isinstance(config.value, dict) or "timeout" not in config.value:
        return None
    found = config.value["timeout"]
    return section.judge(found, "timeout", None, read_seconds, "timeout", plain(found))
