"""docs/reference/reasons.md: why due times did not become runs, why runs failed, and exit codes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, get_args

from duebook.cli.exit_codes import MEANINGS
from duebook.explain.explanation import Verdict
from duebook.model.plan import Reason
from tools.reference.writing import NOTE, SOURCE, members, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["reasons_page"]

_FAILURES: Final = {
    "connect": "A request could not connect.",
    "error": "A task raised an exception, or the node failed to perform the run.",
    "event": "An event could not be written.",
    "exit_code": "A command ended with an exit code other than 0, or a task called `sys.exit`.",
    "fenced": "The task is reserved for other namespaces.",
    "http_status": "The status of the response is not an expected one.",
    "import": "The process of a task could not import the program.",
    "invalid": "The command could not be built from its definition.",
    "missing_target": "The node does not know the task or the flow.",
    "not_sent": "Celery refused the task, or its broker failed with one that must not run twice.",
    "not_started": "The program could not be started.",
    "output": "The output is too large, or is not valid JSON.",
    "poison": "Too many nodes were lost while they ran it (`max_takeovers`).",
    "protocol": "The connection broke, or the response was not valid HTTP.",
    "redirect": "A redirect was not allowed.",
    "refused": "The URL is not usable, or its address is neither public nor in `http_allow`.",
    "payload": "The payload does not fit the parameters of the task.",
    "result_lost": "Celery's result backend no longer knows the task.",
    "secret": "The node does not have a secret that the definition names.",
    "signal": "A signal ended the command.",
    "template": "A template could not be rendered.",
    "timeout": "The attempt took longer than its `timeout`.",
    "tls": "The certificate of a server was not accepted.",
    "uncommitted": "The task called `settle_in` and did not commit.",
}
"""The reasons of failures in code, with their descriptions."""
_VERDICTS: Final = {
    "ran": "The due time became a run that has ended.",
    "running": "Its run is being executed.",
    "queued": "Its run waits for a node or for a retry.",
    "cancelled": "Its run was cancelled.",
    "skipped": "It did not become a run; `reason` says why.",
    "waiting": "It has passed, and has to wait before it is decided.",
    "to_come": "It is in the future.",
    "not_due": "Nothing was due at that instant.",
    "unknown": "History does not reach that far back.",
    "done": "A stop or restart of a flow took effect.",
}


def reasons_page() -> Iterator[str]:
    yield from ("# Reasons and exit codes", "", NOTE, "")
    yield from ("The codes are stable: programs may compare them.", "")
    yield from ("## Why a due time did not become a run", "")
    yield from (
        "`reason` of ledger entries, of `explain --json` and of `duebook_skipped_total`.",
        "",
    )
    told = dict(members("model/plan.py", "Reason"))
    rows = [(f"`{reason.value}`", _sentence(told[reason.name])) for reason in Reason]
    yield from table(("reason", "meaning"), rows)
    yield from ("## What `explain` says of a due time", "")
    yield from table(("verdict", "meaning"), _rows(_VERDICTS, set(get_args(Verdict)), "verdict"))
    yield from ("## Why a run failed", "")
    yield from (
        "`reason` of a run. `--retry-on` and `Retry(on=[…])` accept these codes. `payload`,",
        "`output`, `template`, `refused` and `fenced` are never retried.",
        "",
    )
    yield from table(("reason", "meaning"), _rows(_FAILURES, set(_failures()), "failure"))
    yield from ("## Exit codes", "")
    yield from table(("code", "meaning"), _exit_codes())


def _exit_codes() -> Iterator[tuple[str, str]]:
    for code, meaning in MEANINGS.items():
        yield f"`{code}`", f"{meaning[0].upper()}{meaning[1:]}."


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _rows(words: dict[str, str], known: set[str], what: str) -> Iterator[tuple[str, str]]:
    """A row for each; raises if the code has others."""
    if known - words.keys():
        raise LookupError(
            f"describe each {what} in tools/reference: {sorted(known - words.keys())}"
        )
    return ((f"`{name}`", words[name]) for name in sorted(known))


def _failures() -> Iterator[str]:
    """The reasons in `Outcome("failed", REASON)`, `Failed(REASON)` and `Unfit(REASON)`."""
    for folder in ("targets", "engine", "model"):
        for path in sorted((SOURCE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    yield from _reason_of(node)


def _reason_of(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", "")
    values = [one.value for one in call.args[:2] if isinstance(one, ast.Constant)]
    if name == "Outcome" and values[:1] == ["failed"]:
        values = values[1:]
    elif name not in ("Failed", "Unfit"):
        return
    if values and isinstance(values[0], str):
        yield values[0]
