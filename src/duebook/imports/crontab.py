"""Reads crontabs: those of users, of the system, and files of cron.d; pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTrigger, shorten
from duebook.imports.found import Found, Import, NotCarried, name_of
from duebook.imports.targets import command_target, shell_target, stem
from duebook.lazy_dataclasses import dataclass
from duebook.triggers import load_trigger

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_crontab"]

MOST_LINES: Final = 20_000
_ASSIGNMENT: Final = re.compile(
    r"""(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*)""", re.DOTALL
)
_FIELDS: Final = re.compile(r"((?:\S+\s+){4}\S+)(?:\s+(.*))?", re.DOTALL)
_MACRO: Final = re.compile(r"(@\S+)(?:\s+(.*))?", re.DOTALL)
_USER: Final = re.compile(r"(\S+)(?:\s+(.*))?", re.DOTALL)
_RANDOM: Final = re.compile(r"(\d*)~(\d*)")
_COMMAND: Final = re.compile(r"(?:[^\\%]+|\\.?)*", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_DOUBLE: Final = re.compile(r"[^%]*\\\\")
_BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_HERE: Final = "END_OF_INPUT"
CRON_SHELL: Final = "/bin/sh"
HOME_NOTE: Final = (
    "cron starts commands in the home directory of their user; Duebook starts them in the "
    "directory of the node, unless `cwd` names another"
)
DOUBLE_NOTE: Final = (
    r"\\ stays as it is, as in cronie; the cron of Debian and BSD turns it into one backslash"
)
TZ_NOTE: Final = "TZ is set for the commands only, as in cron; due times are those of `tz`"
DIFFERENCES: Final = (
    "a due time is skipped while the run before it is active; cron starts both: see `overlap`",
    "after an outage, the newest missed due time runs; cron forgets it: see `catchup`",
)


@dataclass(slots=True)
class _Lines:
    """Settings and comments of the lines so far, which apply to the lines after them."""

    file: str
    machine_tz: str
    system: bool
    tz: str
    env: dict[str, str] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)


def read_crontab(text: str, file: str, tz: str, system: bool) -> Import:
    """The jobs of a crontab, in its order. `tz` is the zone of the machine; `system` means that a
    user name precedes each command."""
    state, done = _Lines(file, tz, system, tz), Import()
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        told = f"only the first {MOST_LINES:,} of {len(lines):,} lines were read"
        done.leave(f"{file}:{MOST_LINES + 1}", "the rest of the file", told)
    for number, raw in enumerate(lines[:MOST_LINES], 1):
        _read_line(raw.strip(), number, state, done)
    if any("TZ" in one.form["target"].get("env", ()) for one in done.found):
        done.notes.append(TZ_NOTE)
    if any("cwd" not in one.form["target"] for one in done.found):
        done.notes.append(HOME_NOTE)
    if done.found:
        done.notes += DIFFERENCES
    return done


def _read_line(line: str, number: int, state: _Lines, done: Import) -> None:
    if not line:
        state.comments.clear()
    elif line.startswith("#"):
        comment = line.lstrip("#").strip()
        if comment and not _is_job(comment):
            state.comments.append(comment)
    elif match := _ASSIGNMENT.fullmatch(line):
        state.comments.clear()
        quoted, single, bare, value = match.groups()
        _assign(quoted or single or bare or "", _unquoted(value), state, done)
    else:
        comments, place = tuple(state.comments), f"{state.file}:{number}"
        state.comments.clear()
        try:
            done.found.append(_job(line, place, comments, state))
        except NotCarried as error:
            done.leave(place, line, error)


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _assign(name: str, value: str, state: _Lines, done: Import) -> None:
    if name == "CRON_TZ":
        state.tz = value or state.machine_tz
    elif name == "MAILTO":
        if value:
            told = f"MAILTO={shorten(value)} is not carried over: output is kept with each run"
            done.notes.append(f"{told}; for a message when a run fails, see duebook alert add")
    elif name == "RANDOM_DELAY":
        done.notes.append("RANDOM_DELAY is not carried over; use `jitter`")
    else:
        state.env[name] = value


def _is_job(text: str) -> bool:
    """Whether a comment is a job that was commented out."""
    match = _FIELDS.fullmatch(text)
    return bool(match and match[2] and _problem(match[1]) is None) or text.startswith("@")


def _job(line: str, place: str, comments: Sequence[str], state: _Lines) -> Found:
    expression, rest = _split(line)
    notes: list[str] = []
    if state.system:
        found = _USER.fullmatch(rest or "")
        if not found or not found[2]:
            raise NotCarried("there is no command after the user")
        rest = found[2]
        notes.append(f"it ran as {found[1]}; a command runs as the user of the node")
    if not rest:
        raise NotCarried("there is no command after the five fields")
    target = _target(rest, state)
    if _DOUBLE.match(rest):
        notes.append(DOUBLE_NOTE)
    form: dict[str, Any] = {"trigger": _trigger(expression, state, notes), "target": target}
    if comments:
        form["description"] = shorten(" ".join(comments), 1_000)
    if not state.system and rest.split()[0] == "root":
        notes.append("its command is root: if that is a user, add --system")
    return Found(name_of(*stem(rest.partition("%")[0])), form, place, tuple(notes))


def _split(line: str) -> tuple[str, str | None]:
    """The expression, and what follows it."""
    match = (_MACRO if line.startswith("@") else _FIELDS).fullmatch(line)
    if match is None:
        raise NotCarried("it is neither a job with five fields nor NAME=VALUE")
    expression = " ".join(match[1].removeprefix("-").split())
    if expression.lower() == "@reboot":
        raise NotCarried("@reboot: starting with the machine is a task for systemd")
    return expression, match[2]


def _trigger(expression: str, state: _Lines, notes: list[str]) -> dict[str, Any]:
    text = _hashed(expression)
    if text != expression:
        notes.append(f"{expression}: the random value is now a fixed one, from the name")
    if problem := _problem(text, state.tz):
        raise NotCarried(problem)
    return {"cron": text} | ({} if state.tz == "UTC" else {"tz": state.tz})


def _problem(expression: str, tz: str = "UTC") -> str | None:
    try:
        load_trigger({"cron": expression, "tz": tz}, key="job")
    except InvalidTrigger as error:
        return str(error)
    return None


def _hashed(expression: str) -> str:
    """`0~59`, a random value of cronie, turned into a hashed value."""
    fields = expression.split()
    if "~" not in expression or len(fields) != len(_BOUNDS):
        return expression
    for place, (low, high) in enumerate(_BOUNDS):
        if match := _RANDOM.fullmatch(fields[place]):
            fields[place] = f"H({match[1] or low}-{match[2] or high})"
    return " ".join(fields)


def _target(command: str, state: _Lines) -> dict[str, Any]:
    text, given = _split_input(command)
    env = {name: value for name, value in state.env.items() if name != "SHELL"}
    shell, cwd = state.env.get("SHELL", CRON_SHELL), env.get("HOME")
    if shell in (CRON_SHELL, "sh"):
        return shell_target(given + text, env, cwd)
    if given:
        return shell_target(f"{given}exec {shlex.join([shell, '-c', text])}", env, cwd)
    return command_target([shell, "-c", text], env, cwd)


def _split_input(command: str) -> tuple[str, str]:
    r"""The command, and if it has input, the shell line that supplies it: the first % ends the
    command; the input follows, with newlines in place of further ones. \% is a percent sign."""
    first = _COMMAND.match(command)
    assert first is not None  # noqa: S101 - it also matches the empty string
    text = _ESCAPED.sub(lambda match: match[0].replace("\\%", "%"), first[0]).rstrip()
    if first.end() == len(command):
        return text, ""
    if not text:
        raise NotCarried("there is no command before the %")
    given = command[first.end() + 1 :]
    lines = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", given)]
    if not lines[-1]:  # a newline at the end of the input does not start another line
        del lines[-1]
    end = _HERE
    while end in lines:
        end += "_"
    # not around the command: dash 0.5.12 loses redirections of a subshell in { } with input
    return text, "\n".join([f"exec <<'{end}'", *lines, end, ""])
