"""Reads `mail_on`: mails about how a run ended, as steps that follow all handlers; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, text_of
from duebook.flows.words import MAIL_ON, REPORT
from duebook.model.fields import read_flag

if TYPE_CHECKING:
    from duebook.model.flow import Event, Mail

__all__ = ["read_mail_on"]

_SUCCEEDED: Final = """succeeded{{ " in part" if flow.status == "partial" else "" }}"""
_MAILS: Final[tuple[tuple[Mail, str, str, str], ...]] = (
    ("success_mail", "success", "info_mail", _SUCCEEDED),
    ("failure_mail", "failure", "error_mail", "failed"),
)


def read_mail_on(section: Section, name: str) -> tuple[dict[Event, Node], tuple[str, ...]]:
    """The steps that send mail when flow `name` has ended, and notes about them."""
    found: dict[Event, Node] = {}
    notes: list[str] = []
    about = section.get("mail_on")
    asked = None if about is None else Section(about, "mail_on", section.problems, MAIL_ON)
    for event, about_end, key, told in _MAILS:
        node = section.get(key)
        mail = None if node is None else Section(node, key, section.problems, REPORT)
        if mail is not None and mail.read("attach_logs", read_flag, default=False):
            notes.append(f"the mail of {key} has no logs attached, but a command that prints them")
        if asked is None or not asked.read(about_end, read_flag, default=False):
            continue
        if mail is None or "to" not in mail:
            lacking = f"mail_on.{about_end} has no recipients"
            section.problem(about or section.node, "mail_on", lacking, f"add `{key}` with `to`")
            continue
        found[event] = _step(mail, name, told)
    return found, tuple(notes)


def _step(mail: Section, name: str, told: str) -> Node:
    """A step in Dagu's words, placed at the line of its addresses."""
    prefix = mail.read("prefix", text_of, "").strip()
    run, at = "${DAG_RUN_ID}", mail.node
    made = {
        "subject": f"{prefix} {name} {told}".strip(),
        "message": f"The run {run} of {name} {told}.\n\nduebook logs {run}\n",
    }
    parts = {key: Node(text, at.line, at.column) for key, text in made.items()}
    for key in ("from", "to"):
        if (node := mail.get(key)) is not None and plain(node) not in (None, ""):
            parts[key] = node
    return _mapping(
        {"action": Node("mail.send", at.line, at.column), "with": _mapping(parts, at)}, at
    )


def _mapping(parts: dict[str, Node], at: Node) -> Node:
    keys = {key: Node(key, at.line, at.column) for key in parts}
    return Node(parts, at.line, at.column, keys=keys)
