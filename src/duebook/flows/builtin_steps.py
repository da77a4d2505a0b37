"""Reads steps that Duebook itself runs, as a separate program: jq, mail and templates."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.flows.commands import directory_of
from duebook.flows.go_template import parse_go_template
from duebook.flows.parse import Node, plain
from duebook.flows.problems import Misplaced
from duebook.flows.section import Section, items, text_of, whole_of
from duebook.flows.variables import check_value, walk
from duebook.flows.words import JQ, MAIL, SMTP, TEMPLATE
from duebook.model.fields import read_flag
from duebook.model.flow import builtin_program
from duebook.model.target import CommandTarget

if TYPE_CHECKING:
    from duebook.flows.references import Scope

__all__ = ["is_mail", "read_builtin", "read_smtp"]

_VALUE: Final = re.compile(r"\$\{")


def read_builtin(
    name: str, section: Section, config: Node | None, scope: Scope
) -> tuple[CommandTarget, dict[str, Any]]:
    """The program of such a step, and the payload that defines its work; raises Invalid."""
    readers = {"jq.filter": _jq, "mail.send": _mail, "template.render": _template}
    kind = name.partition(".")[0]
    scope = replace(scope, secrets=True)
    payload = readers[name](section, config, scope)
    target = CommandTarget((builtin_program(kind),), cwd=directory_of(section, scope))
    return target, payload


def is_mail(target: object) -> bool:
    return isinstance(target, CommandTarget) and target.argv == (builtin_program("mail"),)


def _jq(section: Section, config: Node | None, scope: Scope) -> dict[str, Any]:
    """An action has filter and data below `with`; an executor has command and script."""
    inner = _inner(section, config, JQ)
    command, script = section.get("command"), section.get("script")
    node = inner.get("filter") or command
    if node is None and "action" in section:
        raise Invalid("jq has no filter; add `filter: .name`")
    query = "." if node is None else text_of("filter", plain(node))
    if _VALUE.search(query):
        raise Invalid(
            f'filter "{shorten(query)}" contains a value; pass it in args, and write $NAME'
        )
    form: dict[str, Any] = {"filter": query, "raw": inner.read("raw", read_flag, default=False)}
    data = inner.get("data") or script
    if (path := inner.get("input")) is not None:
        if data is not None:
            raise Invalid("jq has both data and input; keep one")
        form["input"] = walk(text_of("input", plain(path)), scope)
        check_value(form["input"], scope, "input")
    elif data is not None:
        form["data"] = walk(plain(data), scope)
    else:
        raise Invalid("jq has nothing to filter; add `data`")
    if (args := inner.get("args")) is not None:
        form["args"] = walk(plain(args), scope)
    return form


def _mail(section: Section, config: Node | None, scope: Scope) -> dict[str, Any]:
    inner = _inner(section, config, MAIL)
    form: dict[str, Any] = {}
    for key in ("from", "subject", "message"):
        if (node := inner.get(key)) is not None:
            form[key] = walk(text_of(key, plain(node)), scope)
    for key in ("to", "cc", "bcc", "attachments"):
        if (node := inner.get(key)) is not None:
            form[key] = [walk(text_of(key, plain(item)), scope) for item in items(node)]
    if not form.get("to"):
        raise Invalid("mail has no recipients; add `to: ops@example.com`")
    for key in ("to", "cc", "bcc", "attachments"):
        for text in form.get(key, ()):
            check_value(text, scope, key, "write it literally, or as a variable of env")
    return form


def _template(section: Section, config: Node | None, scope: Scope) -> dict[str, Any]:
    inner = _inner(section, config, TEMPLATE)
    node, data = inner.get("template"), inner.get("data")
    if node is None:
        raise Invalid("template.render has no template; add `template: text`")
    try:
        parts = parse_go_template(text_of("template", plain(node)))
    except Misplaced as error:
        raise Misplaced(str(error), error.offset, node, error.text) from None
    form: dict[str, Any] = {"parts": parts, "data": {}}
    if data is not None:
        form["data"] = walk(plain(data), scope)
    if (path := inner.get("output")) is not None:
        form["output"] = walk(text_of("output", plain(path)), scope)
        check_value(form["output"], scope, "output")
    return form


def _inner(section: Section, config: Node | None, table: Any) -> Section:
    node = config or Node({}, section.node.line, section.node.column)
    return Section(node, section.at("config"), section.problems, table)


def read_smtp(section: Section, scope: Scope) -> dict[str, Any] | None:
    """The mail server for the mail steps of a flow."""
    node = section.get("smtp")
    if node is None:
        return None
    inner = Section(node, section.at("smtp"), section.problems, SMTP)
    form: dict[str, Any] = {}
    for key in ("host", "username", "password"):
        if (found := inner.get(key)) is not None:
            own = replace(scope, secrets=key != "host")
            form[key] = section.judge(found, "smtp", "", walk, text_of(key, plain(found)), own)
    form["port"] = inner.read("port", whole_of(1, 65_535), 587)
    host = form.get("host", "")
    if not host:
        inner.problem(node, "host", "smtp has no host", "add `host: mail.example.com`")
    else:
        section.judge(node, "smtp", None, check_value, host, scope, "smtp host")
    return form
