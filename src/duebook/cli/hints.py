"""Words of other programs' users, and their equivalents here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from duebook.errors import printable, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["missing_command"]

_LISTS: Final = dict.fromkeys(("list", "all"), "ls")
_DELETES: Final = dict.fromkeys(("delete", "del", "remove", "destroy"), "rm")
_SHOWS: Final = dict.fromkeys(("get", "inspect", "view", "info", "cat"), "show")

HINTS: Final[Mapping[str, Mapping[str, str]]] = {
    "duebook": {
        **_LISTS,
        **_DELETES,
        **_SHOWS,
        **dict.fromkeys(("schedules", "jobs", "crontab"), "ls"),
        **dict.fromkeys(("kill", "abort", "terminate"), "cancel"),
        **dict.fromkeys(("create", "new", "schedule"), "add"),
        **dict.fromkeys(("edit", "set", "change", "modify"), "update"),
        **dict.fromkeys(("trigger", "execute", "exec", "fire", "invoke"), "run"),
        **dict.fromkeys(("start", "serve", "server", "scheduler", "node", "init"), "up"),
        **dict.fromkeys(("disable", "suspend", "stop", "hold"), "pause"),
        **dict.fromkeys(("enable", "unpause", "activate", "continue"), "resume"),
        **dict.fromkeys(("log", "tail", "stdout"), "logs"),
        **dict.fromkeys(("history", "ps", "executions"), "runs"),
        **dict.fromkeys(("rerun", "redo"), "retry"),
        **dict.fromkeys(("why", "debug"), "explain"),
        **dict.fromkeys(("health", "check"), "doctor"),
        **dict.fromkeys(("skip",), "skip-next"),
        **dict.fromkeys(("move", "postpone", "delay"), "reschedule"),
        **dict.fromkeys(("undo", "unskip"), "restore"),
        **dict.fromkeys(("replay",), "backfill"),
        **dict.fromkeys(("held", "approvals"), "catchup ls"),
        "approve": "catchup approve",
        "reject": "catchup reject",
        **dict.fromkeys(("upcoming", "forecast"), "preview"),
        **dict.fromkeys(("result",), "output"),
        **dict.fromkeys(("dashboard", "ui"), "web"),
        **dict.fromkeys(("workers", "machines", "fleet"), "nodes"),
        **dict.fromkeys(("changes", "who"), "audit"),
        **dict.fromkeys(("plan", "compare"), "diff"),
        **dict.fromkeys(("sync", "load"), "apply"),
        **dict.fromkeys(("dump",), "export"),
        "flows": "flow ls",
        "queues": "queue ls",
        "templates": "template ls",
        "namespaces": "namespace ls",
        "tokens": "token ls",
        "event": "events",
        **dict.fromkeys(("alerts", "notify", "notifications"), "alert ls"),
        "login": "token link",
        "migrate": "db migrate",
        "upgrade": "db migrate",
        "help": "--help",
        "version": "--version",
    },
    "duebook flow": {
        **_LISTS,
        **_SHOWS,
        "trigger": "start",
        **dict.fromkeys(("cancel", "kill"), "stop"),
        **dict.fromkeys(("validate", "lint"), "check"),
        **dict.fromkeys(("draw", "dag"), "graph"),
        **dict.fromkeys(("rm", "delete", "remove"), "forget"),
        **dict.fromkeys(("dry-run", "render"), "dry"),
    },
    "duebook token": {
        **_LISTS,
        **dict.fromkeys(("add", "new"), "create"),
        **dict.fromkeys(("rm", "delete", "remove"), "revoke"),
    },
    "duebook template": {
        **_LISTS,
        **_SHOWS,
        **_DELETES,
        **dict.fromkeys(("add", "create", "set"), "save"),
    },
    "duebook queue": {
        **_LISTS,
        **dict.fromkeys(("set", "update"), "limit"),
        **dict.fromkeys(("unlimit", "rm", "delete"), "free"),
    },
    "duebook catchup": {
        **_LISTS,
        **dict.fromkeys(("accept", "run", "release", "allow"), "approve"),
        **dict.fromkeys(("drop", "skip", "deny", "rm"), "reject"),
    },
    "duebook namespace": {
        **_LISTS,
        **dict.fromkeys(("set", "quota"), "limit"),
        **dict.fromkeys(("unlimit", "rm", "delete"), "free"),
    },
    "duebook alert": {
        **_LISTS,
        **_DELETES,
        **_SHOWS,
        **dict.fromkeys(("create", "new", "save", "set", "update"), "add"),
        **dict.fromkeys(("mute", "snooze"), "silence"),
        **dict.fromkeys(("log", "open"), "history"),
    },
    "duebook events": {
        **dict.fromkeys(("ls", "list", "show", "log"), "tail"),
        **_DELETES,
        **dict.fromkeys(("consumers", "lag"), "groups"),
        **dict.fromkeys(("sinks",), "sink ls"),
        **dict.fromkeys(("dead", "dead-letters"), "dlq"),
    },
    "duebook events sink": {**_LISTS, **dict.fromkeys(("create", "set", "update"), "add")},
    "duebook db": {
        **dict.fromkeys(("upgrade", "init", "create"), "migrate"),
        **dict.fromkeys(("show", "info"), "status"),
        **dict.fromkeys(("verify", "fsck"), "check"),
        **dict.fromkeys(("move",), "copy"),
    },
}
"""By the command before it: other programs' words, and the equivalent here."""


def missing_command(path: str, word: str, rest: Sequence[str], known: Sequence[str]) -> str:
    """The message for an unknown command, with the one probably meant and its arguments."""
    path = " ".join(["duebook", *path.split()[1:]])
    right = HINTS.get(path, {}).get(word)
    if right is None:
        from difflib import get_close_matches  # slow to import, and only mistakes need it

        right = next(iter(get_close_matches(word, known, 1, 0.7)), None)
    missing = f'there is no command "{shorten(word)}"'
    if right is None:
        return missing
    arguments = shlex.join(rest) if len(rest) <= 8 else "…"
    return f"{missing}; did you mean: {printable(f'{path} {right} {arguments}'.strip())}"
