"""Use cases of flows: show, start, stop, restart and retry them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import Auditor
from duebook.book.calendar_use import calendars_of, resolved
from duebook.book.flow_registry import FlowRegistry
from duebook.book.flow_waits import standing_of, stopping, waits_of
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.explain.flow_runs import explain_flow
from duebook.flows.build import build
from duebook.flows.files import default_name
from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.flows.lifecycle import again, from_step, retried
from duebook.flows.param_values import check_params, check_start
from duebook.flows.problems import Problem, did_you_mean
from duebook.flows.redacted_source import with_lines
from duebook.ids import check_name, is_name, looks_like_prefix, new_id
from duebook.model.fields import check_payload
from duebook.model.filters import check_page
from duebook.model.flow import root_of
from duebook.model.flow_run import step_state
from duebook.model.flow_target import FlowTarget
from duebook.model.flow_view import FlowView, flow_view
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.model.run import Outcome
from duebook.model.schedule import InvalidSchedule
from duebook.timetext import format_instant
from duebook.triggers.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.explain.flow_runs import FlowExplanation
    from duebook.model.flow import Flow
    from duebook.model.run import Run
    from duebook.store.base import Store, Tx
    from duebook.store.flow_values import BrokenFile, KeptFlow

    # inside the class below `list` is a method
    RunList = list[Run]
    ProblemList = list[dict[str, Any]]
    Views = Listing[FlowView]
    NameList = list[str]

__all__ = ["Flows", "reopen_flow"]

FLOW = "flow"
MOST_TOLD = 3
"""Runs that a message names."""
_FLOW_CACHE = FlowCache()
"""Revisions never change, so all callers share what was read before."""

MOST_SECONDS: Final = 5.0
"""Of processor time, to check a submitted text."""


class Flows:
    """Read, start and stop flows. Every method takes the name of a flow; raises NotFound."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._audit = Auditor(namespace, by)
        self._flow_cache = _FLOW_CACHE

    def list(self, limit: int = 100, *, cursor: str | None = None) -> Views:
        """Return a page of flows by name, each with its latest run.

        Pass `next_cursor` for the next page. Raises BadCursor.
        """
        check_page(limit)
        asked, key = ["flows", self._namespace], self._store.cursor_key()
        after = read_cursor(key, asked, cursor, "s")

        def work(tx: Tx) -> Views:
            problems = tx.flows.list_flow_problems(self._namespace)
            page = tx.flows.page_flows(self._namespace, after, limit)
            names = [kept.name for kept in page.rows]
            runs = tx.flow_runs.latest_flow_runs(self._namespace, names) if names else {}
            wanted = [(kept.name, kept.digest) for kept in page.rows]
            flows = self._flow_cache.find_all(tx.flows, self._namespace, wanted)
            unread = _unread(tx, self._namespace)
            views = (
                _view(kept, flow, problems, runs.get(kept.name), unread)
                for kept, flow in zip(page.rows, flows, strict=True)
            )
            return Listing(views, write_cursor(key, asked, page.last))

        return self._store.read(work)

    def get(self, name: str) -> FlowView:
        """Return one flow, with its latest run, and why steps of that run are waiting."""

        def work(tx: Tx) -> FlowView:
            kept, problems = self._kept(tx, name), tx.flows.list_flow_problems(self._namespace)
            view = self._view(tx, kept, problems)
            return replace(view, waits=waits_of(tx, self._flow_cache, view.last_run))

        return self._store.read(work)

    def source(self, name: str) -> str:
        """Return the text of the flow's file."""

        def work(tx: Tx) -> str:
            kept = self._kept(tx, name)
            found = tx.flows.flow_revisions(self._namespace, [(kept.name, kept.digest)])
            return next((revision.source for revision in found.values()), "")

        return self._store.read(work)

    def broken_source(self, name: str) -> str | None:
        """Return the text of its file if that has problems, without secrets; otherwise None."""

        def work(tx: Tx) -> str | None:
            return tx.flows.get_broken_source(self._namespace, self._kept(tx, name).place) or None

        return self._store.read(work)

    def broken_file(self, place: str) -> str | None:
        """Like `broken_source`, also for a file that never contained a valid flow."""
        return (
            self._store.read(lambda tx: tx.flows.get_broken_source(self._namespace, place)) or None
        )

    def performed(self, run_id: str) -> FlowView:
        """Return the flow in the revision that a run started with; raises Conflict if that revision
        has been deleted."""

        def work(tx: Tx) -> FlowView:
            run = self._run(tx, run_id)
            flow, digest = _begun_with(tx, run)
            return flow_view(flow, "", digest, run.created_at, None, run)

        return self._store.read(work)

    def params(self, run_id: str) -> dict[str, Any]:
        """Return the params of a flow run; raises NotFound for any other run."""

        def work(tx: Tx) -> dict[str, Any]:
            made = tx.flow_runs.flow_run(self._run(tx, run_id).id)
            return {} if made is None else made.params

        return self._store.read(work)

    def problems(self) -> ProblemList:
        """Return the problems in flow files: file, line, column, key, message and hint."""
        found = self._store.read(lambda tx: tx.flows.list_flow_problems(self._namespace))
        return [problem for file in found.values() for problem in file.problems]

    def validate(self, source: str, name: str = "flow") -> ProblemList:
        """Return the problems in the text of a flow file, including a calendar that does not exist;
        nothing is stored."""
        if not isinstance(source, str):
            raise Invalid(f"source {shorten(source)} is not a string")
        built = build(source, f"{check_name(name)}.yaml", name, MOST_SECONDS)
        problems = built.problems or self._without_calendars(built.flows, source, f"{name}.yaml")
        return [problem.to_json() for problem in problems]

    def _without_calendars(
        self, flows: Sequence[Flow], source: str, file: str
    ) -> tuple[Problem, ...]:
        """Problems for calendars that the text uses and the namespace does not have."""
        specs = [flow.policies for flow in flows]
        known = self._store.read(lambda tx: calendars_of(tx, self._namespace, specs))
        problems = []
        for flow in flows:
            try:
                resolved(flow.policies, known)
            except InvalidSchedule as error:
                problems.append(Problem(file, *flow.calendar_at, "calendar", str(error)))
        return with_lines(problems, source) if problems else ()

    def forget(self, directory: str) -> NameList:
        """Delete the flows of a directory that no node uses any more; returns their names.

        Running flows finish. Raises NotFound if the directory has no flows, and Conflict while a
        node reads it.
        """

        def work(tx: Tx) -> NameList:
            names = FlowRegistry(self._store, self._namespace).forget(tx, directory)
            if not names:
                raise NotFound(f'no flows come from directory "{shorten(directory)}"')
            for name in names:
                self._note(tx, "forget", name, "")
            return names

        return self._store.transact(work)

    def start(self, name: str, params: Mapping[str, Any] | None = None) -> Run:
        """Start a run of the flow now; it waits if its schedule does not allow overlapping runs.

        Raises Invalid for unknown or wrong params.
        """
        given = check_payload("params", dict(params or {}))

        def work(tx: Tx) -> Run:
            kept = self._kept(tx, name)
            flow = self._flow(tx, kept)
            target = FlowTarget(kept.name, tuple(check_start(flow, given).items()))
            run_id = new_id()
            priority, by = flow.policies.priority, self._audit.by or None
            tx.flow_runs.start_flow(run_id, self._namespace, target, priority, "manual", by)
            self._note(tx, "start", kept.name, run_id)
            return tx.runs.get_run(run_id)

        return self._store.transact(work)

    def stop(self, name: str) -> RunList:
        """Cancel the flow's active runs, also those of a deleted flow, and a restart in progress;
        returns the runs.

        Raises Conflict if there is nothing to stop, or if everything is already stopping.
        """

        def work(tx: Tx) -> RunList:
            if not is_name(name):
                self._kept(tx, name)
            restarting = tx.flow_controls.forget_restart(self._namespace, name)
            active = tx.flow_controls.active_flow_runs(self._namespace, name)
            if not active and not restarting:
                self._kept(tx, name)
                raise Conflict(f'flow "{name}" is not running')
            runs = [tx.runs.get_run(run_id) for run_id, _ in active]
            fresh = [run for run in runs if run.cancel_requested_at is None]
            if not fresh and not restarting:
                told = "; ".join(stopping(tx, run) for run in runs[:MOST_TOLD])
                raise Conflict(f'flow "{name}" is already stopping: {told}')
            tx.flow_controls.stop_flows([run.id for run in fresh], "stopped")
            self._note(tx, "stop", name, runs[0].id if runs else "")
            return [tx.runs.get_run(run.id) for run in runs]

        return self._store.transact(work)

    def restart(self, name: str) -> FlowView:
        """Stop the flow if it is running, wait for its `restart_wait_sec`, and start it with the
        params of the stopped run."""

        def work(tx: Tx) -> FlowView:
            kept = self._kept(tx, name)
            if not tx.flow_controls.active_flow_runs(self._namespace, kept.name):
                check_params(self._flow(tx, kept), {})
            tx.flow_controls.control_flow(self._namespace, kept.name, tx.now, restarting=True)
            self._note(tx, "restart", kept.name, "")
            return self._view(tx, kept, {})

        return self._store.transact(work)

    def retry(self, run_id: str, step: str | None = None) -> Run:
        """Continue a finished run from where it failed, or from a step.

        Steps that succeeded are kept. The run keeps its revision and its params. Raises Conflict if
        it has not finished, nothing failed, or the step could not run.
        """
        if step is not None and not isinstance(step, str):
            raise Invalid(f"step {shorten(step)} is not a step name")

        def work(tx: Tx) -> Run:
            run = self._run(tx, run_id)
            self._note(tx, "retry", run.flow or "", run.id)
            return reopen_flow(tx, run, step)

        return self._store.transact(work)

    def approve(self, run_id: str, step: str, comment: str | None = None) -> Run:
        """Approve a step that waits for a person, so that the flow continues.

        Return the run of the step, whose output says who approved it and when. Raises NotFound for
        an unknown step, and Conflict if it does not wait for a person.
        """
        return self._answer(run_id, step, "approved", comment)

    def reject(self, run_id: str, step: str, comment: str | None = None) -> Run:
        """Reject a step that waits for a person: the step fails. As `approve` otherwise."""
        return self._answer(run_id, step, "rejected", comment)

    def _answer(self, run_id: str, step: str, decision: str, comment: str | None) -> Run:
        if comment is not None and not isinstance(comment, str):
            raise Invalid(f"comment {shorten(comment)} is not a string")

        def work(tx: Tx) -> Run:
            run = self._run(tx, run_id)
            tx.flow_runs.lock_flow_run(run.id)
            waiting = _step_of(tx, run, step)
            by, is_good = self._audit.by or "unknown", decision == "approved"
            form = {"decision": decision, "by": by, "at": format_instant(tx.now)}
            form |= {"comment": comment} if comment else {}
            told = None if is_good else f"rejected by {by}" + (f": {comment}" if comment else "")
            outcome = Outcome(
                "succeeded" if is_good else "failed",
                None if is_good else "rejected",
                told,
                output=json.dumps(form, ensure_ascii=False),
            )
            if not tx.attempts.answer(waiting.id, outcome):
                state = f"it is {waiting.state}"
                raise Conflict(f'step "{step}" does not wait for a person: {state}')
            name = "approve" if is_good else "reject"
            after = {"step": step, "comment": comment}
            self._audit.note(tx, name, FLOW, run.flow or "", run.id, None, after)
            return tx.runs.get_run(waiting.id)

        return self._store.transact(work)

    def steps(self, run_id: str) -> RunList:
        """Return the runs of a flow run's steps, in the order of their creation."""
        return self._store.read(lambda tx: tx.flow_runs.list_steps_of(self._run(tx, run_id).id))

    def explain(self, run_id: str, tz: str | None = None) -> FlowExplanation:
        """Explain the progress of a run in a sentence, and what each of its steps is waiting for.

        For the run of a step, explain that step alone. Times are in `tz`; the default is the time
        zone of the flow's schedule. Raises NotFound, and Conflict if the revision that it started
        with has been deleted.
        """
        told_in = None if tz is None else zone_name(tz)

        def work(tx: Tx) -> FlowExplanation:
            run, only = self._run_or_step(tx, run_id)
            flow, _ = _begun_with(tx, run)
            return explain_flow(
                replace(standing_of(tx, self._flow_cache, flow, run), tz=told_in), only
            )

        return self._store.read(work)

    def runs(self, name: str, limit: int = 20) -> RunList:
        """Return its runs, newest first, also those of a deleted flow."""
        if not 1 <= limit <= 1_000:
            raise Invalid(f"limit {limit} is not a number from 1 to 1,000")

        def work(tx: Tx) -> RunList:
            found = tx.flow_runs.list_flow_runs(self._namespace, name, limit)
            if not found:
                self._kept(tx, name)
            return found

        return self._store.read(work)

    def _run(self, tx: Tx, run_id: str) -> Run:
        run = self._any_run(tx, run_id)
        if tx.flow_runs.flow_run(run.id) is None:
            raise NotFound(f"run {run.id} is not a run of a flow")
        return run

    def _run_or_step(self, tx: Tx, run_id: str) -> tuple[Run, str | None]:
        """A flow run; or the flow run of a step, with the step's name."""
        run = self._any_run(tx, run_id)
        if tx.flow_runs.flow_run(run.id) is not None:
            return run, None
        if run.parent_run_id is None or run.step is None:
            raise NotFound(f"run {run.id} is not a run of a flow or a step")
        return tx.runs.get_run(run.parent_run_id), run.step

    def _any_run(self, tx: Tx, run_id: str) -> Run:
        if not isinstance(run_id, str) or not looks_like_prefix(run_id):
            raise NotFound(f'run "{shorten(run_id)}" does not exist; an id looks like {new_id()}')
        return tx.runs.get_run(tx.runs.find_run(self._namespace, run_id))

    def _kept(self, tx: Tx, name: str) -> KeptFlow:
        kept = tx.flows.get_flow(self._namespace, name) if isinstance(name, str) else None
        if kept is None:
            raise NotFound(f'flow "{shorten(name)}" does not exist{self._instead(tx, str(name))}')
        return kept

    def _instead(self, tx: Tx, name: str) -> str:
        """The problem in the file that would define it, or a similar name."""
        for place, broken in tx.flows.list_flow_problems(self._namespace).items():
            if broken.problems and default_name(PurePosixPath(place)) == name:
                return f"; {Problem(**broken.problems[0])}"
        hint = did_you_mean(name, [flow.name for flow, _ in tx.flows.list_flows(self._namespace)])
        return f"; {hint}" if hint else ""

    def _flow(self, tx: Tx, kept: KeptFlow) -> Flow:
        try:
            return self._flow_cache.find(tx.flows, self._namespace, kept.name, kept.digest)
        except NoFlow as error:
            raise Conflict(str(error)) from None

    def _view(self, tx: Tx, kept: KeptFlow, problems: Mapping[str, BrokenFile]) -> FlowView:
        runs = tx.flow_runs.list_flow_runs(self._namespace, kept.name, 1)
        (flow,) = self._flow_cache.find_all(tx.flows, self._namespace, [(kept.name, kept.digest)])
        unread = _unread(tx, self._namespace)
        return _view(kept, flow, problems, runs[0] if runs else None, unread)

    def _note(self, tx: Tx, action: str, name: str, run_id: str) -> None:
        self._audit.note(tx, action, FLOW, name, run_id)


def _step_of(tx: Tx, run: Run, name: str) -> Run:
    """The run of a step by its name; raises NotFound."""
    rows = {row.step: row for row in tx.flow_runs.list_steps_of(run.id) if row.step is not None}
    if not isinstance(name, str) or name not in rows:
        hint = did_you_mean(str(name), rows) or f"it has {shorten(', '.join(rows) or 'none yet')}"
        raise NotFound(f'run {run.id} has no step "{shorten(name)}" that has started; {hint}')
    return rows[name]


def _unread(tx: Tx, namespace: str) -> dict[str, str]:
    """Messages about directories that no node reads, by directory."""
    found = tx.directories.list_directories([namespace])
    return {each.name: told for each in found if (told := each.unread) is not None}


def _view(
    kept: KeptFlow,
    flow: Flow | NoFlow,
    problems: Mapping[str, BrokenFile],
    last: Run | None,
    unread: Mapping[str, str],
) -> FlowView:
    told = unread.get(root_of(kept.place))
    if isinstance(flow, NoFlow):
        return FlowView(*kept, problem=str(flow), last_run=last, unread=told)
    broken = problems.get(kept.place)
    problem = str(Problem(**broken.problems[0])) if broken and broken.problems else None
    view = flow_view(flow, kept.place, kept.digest, kept.updated_at, problem, last)
    return replace(view, unread=told)


def reopen_flow(tx: Tx, run: Run, step: str | None = None) -> Run:
    """Continue a flow run; raises Conflict if that is not possible."""
    if run.parent_run_id is not None:
        raise Conflict(f"run {run.id} is a step; retry its flow run, {run.parent_run_id}")
    if run.is_active:
        raise Conflict(f"run {run.id} has not finished: it is {run.status}")
    _go_on(tx, run, step)
    return tx.runs.get_run(run.id)


def _begun_with(tx: Tx, run: Run) -> tuple[Flow, str]:
    """The flow in the revision that a run started with, and its digest; raises Conflict if that
    revision has been deleted."""
    made = tx.flow_runs.flow_run(run.id)
    digest = None if made is None else made.digest
    try:
        return _FLOW_CACHE.find(tx.flows, run.namespace, run.flow or "", digest), digest or ""
    except NoFlow as error:
        raise Conflict(f"run {run.id}: {error}") from None


def _go_on(tx: Tx, run: Run, step: str | None = None) -> None:
    """Also continues the failed flows that it called, where they failed; raises Conflict."""
    tx.flow_runs.lock_flow_run(run.id)
    flow, _ = _begun_with(tx, run)
    rows = {row.step: row for row in tx.flow_runs.list_steps_of(run.id) if row.step is not None}
    states = {name: step_state(row.status, row.reason, row.exit_code) for name, row in rows.items()}
    forgotten = retried(flow, states) if step is None else again(flow, states, step)
    called = forgotten & rows.keys() & {each.name for each in flow.steps}
    if step is not None:
        called -= from_step(flow, step)
    tx.flow_runs.reopen_flow(
        run.id, forgotten - {name for name in called if _goes_on(tx, rows[name])}
    )


def _goes_on(tx: Tx, called: Run) -> bool:
    """Whether the run of a step is a flow run that could be continued."""
    if tx.flow_runs.flow_run(called.id) is None:
        return False
    try:
        _go_on(tx, called)
    except Conflict:  # it starts from the beginning
        return False
    return True
