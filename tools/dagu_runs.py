"""Executes flow files with Dagu and with Duebook, each in a directory of its own, and compares."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from duebook import Duebook
from duebook.errors import DuebookError
from duebook.model.flow_target import FLOW_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from duebook.model.run import Run

__all__ = ["Ended", "StepEnded", "differences", "run_in_dagu", "run_in_duebook"]

_FLOW: Final = {2: "failed", 3: "cancelled", 4: "succeeded", 6: "partial"}
_STEP: Final = {2: "failed", 3: "cancelled", 4: "succeeded", 5: "not run", 6: "partial"}
_HANDLERS: Final = {
    "onInit": "init",
    "onSuccess": "success",
    "onFailure": "failure",
    "onCancel": "abort",
    "onAbort": "abort",
    "onExit": "exit",
}
_UNNAMED: Final = re.compile(r"(?:cmd|script|step|parallel|dag|http|jq|chain)[_-][\w-]*")
"""A name that was made up, by either."""
_VARYING: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?|\b\d\d:\d\d:\d\d\b|\b1[78]\d{8}\b"
)
_LOOKS: Final = 0.1
"""Seconds between two looks at a run."""


@dataclass(frozen=True)
class StepEnded:
    """How a step ended, and what it printed; None where that is not compared."""

    status: str
    printed: str | None


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    status: str
    steps: dict[str, StepEnded] = field(default_factory=dict)


def differences(first: Ended, second: Ended) -> list[str]:
    """What is not the same in Dagu (first) and in Duebook; nothing when both ended alike."""
    told = []
    if first.status != second.status:
        told.append(f"{first.status} in Dagu, {second.status} in Duebook")
    names = [name for name in first.steps if name in second.steps]
    pairs = [(name, first.steps[name], second.steps[name]) for name in names]
    left = [step for name, step in first.steps.items() if name not in names]
    right = [step for name, step in second.steps.items() if name not in names]
    if len(left) != len(right):
        told.append(f"{len(first.steps)} steps in Dagu, {len(second.steps)} in Duebook")
    pairs += [(f"step {n}", a, b) for n, (a, b) in enumerate(zip(left, right, strict=False), 1)]
    for name, one, other in pairs:
        if one.status != other.status:
            told.append(f"{name} {one.status} in Dagu, {other.status} in Duebook")
        elif None not in (one.printed, other.printed) and one.printed != other.printed:
            told.append(f"{name} printed {one.printed!r} in Dagu, {other.printed!r} in Duebook")
    return told


def _plain(text: str, folder: Path) -> str:
    """Without what differs from run to run."""
    return _VARYING.sub("…", text.replace(str(folder), "…")).strip()


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "DAGU_HOME": str(home / ".dagu")}


def _folders(files: Sequence[Path], under: Path) -> Iterator[tuple[Path, Path]]:
    """Each file, and its copy in a directory of its own."""
    for file in files:
        folder = under / file.stem
        folder.mkdir(parents=True)
        copy = folder / file.name
        shutil.copy(file, copy)
        yield file, copy


def run_in_dagu(dagu: str, files: Sequence[Path], under: Path, within: float) -> dict[Path, Ended]:
    """The ends of those that came to one in time."""
    found = {}
    for file, copy in _folders(files, under):
        home = copy.parent / "home"
        home.mkdir()
        words = [dagu, "start", f"--run-id={uuid.uuid4()}", copy.name]
        process = subprocess.Popen(  # noqa: S603 - the program that the user names
            words,
            env=_environment(home),
            cwd=copy.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            continue
        records = sorted((home / ".dagu").rglob("status.jsonl"), key=lambda path: len(path.parts))
        if records:
            last = records[0].read_text().strip().splitlines()[-1]
            found[file] = _dagu_end(json.loads(last), copy.parent)
    return found


def _dagu_end(form: dict[str, Any], folder: Path) -> Ended:
    steps = {node["step"]["name"]: _dagu_step(node, folder) for node in form.get("nodes", ())}
    for key, event in _HANDLERS.items():
        node = form.get(key)
        if node and node.get("startedAt", "-") not in ("", "-"):
            steps[f"handler_on.{event}"] = _dagu_step(node, folder)
    return Ended(_FLOW.get(form["status"], str(form["status"])), steps)


def _dagu_step(node: dict[str, Any], folder: Path) -> StepEnded:
    begun = node.get("startedAt", "-") not in ("", "-")
    status = _STEP.get(node["status"], "not run") if begun else "not run"
    calls = node["step"].get("subDag") or node["step"].get("childDag")
    printed = None
    if not calls and node.get("stdout"):
        path = folder / node["stdout"]
        printed = _plain(path.read_text(errors="replace"), folder) if path.exists() else ""
    return StepEnded(status, printed if begun else "")


def run_in_duebook(files: Sequence[Path], under: Path, within: float) -> dict[Path, Ended]:
    """The same, by a node for each file that reads its directory."""
    found = {}
    for file, copy in _folders(files, under):
        base = copy.parent.parent / f".{copy.parent.name}"
        base.mkdir()
        url = f"sqlite:///{base / 'books.db'}"
        words = ["up", "--quiet", "--port", "0", "--flows", str(copy.parent), "--database", url]
        with (base / "node.log").open("wb") as log:
            node = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "duebook", *words],
                env=_environment(base),
                cwd=base,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            end = _start(url, copy, within)
            if end is not None:
                found[file] = end
        finally:
            node.send_signal(signal.SIGINT)
            try:
                node.wait(20)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
    return found


def _start(url: str, file: Path, within: float) -> Ended | None:
    """Start the first flow of a file once the node has read it, and wait for its end."""
    from duebook.flows.check import check_files

    name = check_files([file])[0].flows[0].name
    until = time.monotonic() + within
    with Duebook(url) as book:
        run: Run | None = None
        while time.monotonic() < until:
            try:
                run = book.runs.get(run.id) if run else book.flows.start(name)
            except DuebookError:  # the node has not read the file, or not made its database yet
                run = None
            if run is not None and not run.is_active:
                return _duebook_end(book, run, file.parent)
            time.sleep(_LOOKS)
    return None


def _duebook_end(book: Duebook, run: Run, folder: Path) -> Ended:
    rows = {row.step: row for row in book.flows.steps(run.id) if row.step is not None}
    order = [step["name"] for step in book.flows.get(run.flow or "").steps]
    names = [name for name in order if name in rows or not name.startswith("handler_on.")]
    return Ended(run.status, {name: _duebook_step(book, rows.get(name), folder) for name in names})


def _duebook_step(book: Duebook, row: Run | None, folder: Path) -> StepEnded:
    if row is None or row.started_at is None or row.reason == "precondition":
        return StepEnded("not run", "")
    lines = [line.text for _, line in book.runs.log(row.id) if line.stream == "stdout"]
    printed = None if row.queue == FLOW_QUEUE else _plain("\n".join(lines), folder)
    return StepEnded(row.status, printed)
