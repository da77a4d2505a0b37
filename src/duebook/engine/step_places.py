"""What steps of flows use on this node: the directory of their file, variables from files, the mail
server; and the file to which a step writes its named outputs."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.flows.launching import Surroundings, launched
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import builtin_program, root_of
from duebook.model.run import Outcome
from duebook.model.target import CommandTarget
from duebook.targets.processes import Stop, supervise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.flows.render import Rendered
    from duebook.model.flow import Flow, NamedOutput, Step
    from duebook.model.smtp_server import SmtpServer
    from duebook.targets.spawner import Spawner

__all__ = ["FlowPlaces", "named_outputs", "read_variables"]

MOST_READ: Final = 100_000
"""Maximum bytes of all files with variables of a flow."""
LONGEST: Final = 10.0
"""Timeout in seconds for reading them."""
_CAT: Final = 'for f; do if [ -f "$f" ]; then cat -- "$f" || exit; echo; fi; done'
_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_MULTI: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*)<<([A-Za-z_][A-Za-z0-9_]*)")
_SINGLE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.*)")


@dataclass(frozen=True, slots=True)
class FlowPlaces:
    """Where this node has the directories of flow files, and its mail server."""

    directories: Mapping[str, str] = field(default_factory=dict)
    smtp: SmtpServer | None = None

    def directory_of(self, flow: Flow) -> str | None:
        """The directory of its file; None if this node was not given it."""
        root = self.directories.get(root_of(flow.place)) if flow.place else None
        inner = flow.place.partition("/")[2].rpartition("/")[0]
        return root if root is None or not inner else f"{root}/{inner}"

    def launched(
        self,
        flow: Flow,
        step: Step,
        rendered: Rendered,
        inherited: Mapping[str, str],
        facts: tuple[str, str | None],
    ) -> Rendered:
        """With the command that is really started; `facts` are the flow's run, and the file for the
        step's outputs."""
        if not isinstance(rendered.target, CommandTarget):
            return rendered
        run_id, outputs = facts
        around = Surroundings(
            self.directory_of(flow), inherited.get("HOME"), run_id, sys.executable, outputs
        )
        payload = rendered.payload
        if rendered.target.argv[:1] == (builtin_program("mail"),) and "smtp" not in payload:
            payload = payload | ({"smtp": _form(self.smtp)} if self.smtp is not None else {})
        return replace(rendered, target=launched(step.name, rendered, around), payload=payload)

    def variables(
        self, flow: Flow, inherited: Mapping[str, str], spawner: Spawner
    ) -> tuple[tuple[str, str], ...]:
        """The variables from the `dotenv` files, read as the user of commands; raises Invalid."""
        if not flow.dotenv:
            return ()
        printed = bytearray()

        def keep(stream: str, data: bytes) -> None:
            if stream == "stdout":
                printed.extend(data[: MOST_READ + 1 - len(printed)])

        home = inherited.get("HOME", "~")
        paths = [home + path[1:] if path.startswith("~/") else path for path in flow.dotenv]
        argv = ("/bin/sh", "-c", _CAT, "duebook", *paths)
        process = spawner.spawn(argv, inherited, self.directory_of(flow))
        with Stop() as stop:
            ended = supervise(process, keep, stop, LONGEST, grace=1.0)
        if ended.error is not None or ended.code != 0:
            raise Invalid(f"the files of dotenv cannot be read: {ended.error or paths}")
        if len(printed) > MOST_READ:
            raise Invalid(f"the files of dotenv have more than {MOST_READ:,} bytes")
        return tuple(read_variables(printed.decode(errors="replace")).items())


def _form(server: SmtpServer) -> dict[str, Any]:
    form = {"host": server.host, "port": server.port, "tls": server.tls, "from": server.sender}
    return form | {"username": server.user, "password": server.password}


def read_variables(text: str) -> dict[str, str]:
    """The variables of a file of lines NAME=value; raises Invalid that names the line."""
    found: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise Invalid(f'dotenv: the line "{shorten(line.partition("=")[0])}" is not NAME=value')
        if match[1].startswith("DUEBOOK_"):
            raise Invalid(f"dotenv: {match[1]} starts with DUEBOOK_")
        found[match[1]] = _value(match[1], match[2].strip())
    return found


def _value(name: str, text: str) -> str:
    quote = text[:1]
    if quote in ("'", '"'):
        end = text.find(quote, 1)
        if end < 0:
            raise Invalid(f"dotenv: the value of {name} has an unclosed quote")
        text = text[1:end]
    else:
        text = re.split(r"\s#", text)[0].strip()
    if quote != "'" and "${" in text:
        raise Invalid(f"dotenv: the value of {name} names another; write it out, or use env")
    return text.replace("\\n", "\n") if quote == '"' else text


def named_outputs(outcome: Outcome, path: str, wanted: Sequence[NamedOutput]) -> Outcome:
    """The outcome with the values that the step wrote to its file; a step that did not write each
    of them exactly once has failed."""
    if outcome.status != "succeeded":
        return outcome
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, encoding="utf-8") as file:
            text = file.read(MOST_READ + 1)
        found = _checked(_records(text), wanted)
    except (OSError, UnicodeDecodeError) as error:
        told = f"the file of its outputs cannot be read: {error}"
        return Outcome("failed", "output", told, outcome.exit_code)
    except Invalid as error:
        return Outcome("failed", "output", str(error), outcome.exit_code)
    return replace(outcome, output=json.dumps(found, ensure_ascii=False))


def _records(text: str) -> list[tuple[str, str]]:
    """`name=value`, or `name<<END` and lines up to END; raises Invalid."""
    if len(text) > MOST_READ:
        raise Invalid(f"its outputs have more than {MOST_READ:,} characters")
    found: list[tuple[str, str]] = []
    lines = iter(text.replace("\r\n", "\n").splitlines())
    for line in lines:
        if (multi := _MULTI.fullmatch(line)) is not None:
            inner: list[str] = []
            for value in lines:
                if value == multi[2]:
                    break
                inner.append(value)
            else:
                raise Invalid(f'output "{multi[1]}" has no line {multi[2]} at its end')
            found.append((multi[1], "\n".join(inner)))
        elif (single := _SINGLE.fullmatch(line)) is not None:
            found.append((single[1], single[2]))
        else:
            raise Invalid(f'the line "{shorten(line)}" of its outputs is not NAME=value')
    return found


def _checked(records: Sequence[tuple[str, str]], wanted: Sequence[NamedOutput]) -> dict[str, Any]:
    names = [name for name, _ in records]
    known = {output.name: output for output in wanted}
    for name in names:
        if name not in known:
            raise Invalid(f'it wrote the output "{name}", which is not declared in outputs')
        if names.count(name) > 1:
            raise Invalid(f'it wrote the output "{name}" more than once')
    if missing := [name for name in known if name not in names]:
        raise Invalid(f'it did not write the output "{missing[0]}"; write it to $DAGU_OUTPUT_FILE')
    for name, text in records:
        if known[name].is_json:
            try:
                json.loads(text)
            except ValueError:
                raise Invalid(f'output "{name}" is not valid JSON') from None
    return dict(records)
