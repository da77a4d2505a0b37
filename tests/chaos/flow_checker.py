"""What must hold for flows, checked against the database's tables and the output of their commands.

Shares no code with the engine. Every violation is a line that starts with F and a number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tests.chaos.flows import GRAPHS, HANDLERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.chaos.books import Books, Row
    from tests.chaos.flows import Graph
    from tests.chaos.witness import Witness
    from tests.support.nodes import Evidence

HANDLER: Final = "handler_on."
NOT_BEGUN: Final = ("precondition", "upstream_failed", "upstream_skipped")
STOPPED: Final = ("flow_cancelled", "flow_timeout")
SLACK: Final = timedelta(seconds=10)
"""The time of a transaction is that of its start, although it sees what has ended since."""


def check_flows(
    books: Books, seen: Witness, graphs: dict[str, Graph] = GRAPHS, slack: timedelta = SLACK
) -> list[str]:
    """Every violation; empty if all flows followed their rules."""
    looks = (
        every_flow_ends(books, graphs, slack),
        nothing_before_its_turn(books, seen, graphs, slack),
        steps_run_by_the_rules(books, seen, graphs),
        one_attempt_at_a_time(books, seen),
        ends_follow_from_steps(books, graphs),
        each_end_is_told_once(books, seen),
        no_more_steps_at_once(books, seen, graphs),
    )
    return [f"F{number}: {text}" for number, look in enumerate(looks, 1) for text in look]


def _flows(books: Books) -> Iterator[tuple[Row, dict[str, Row]]]:
    """The runs of flows that started, each with the runs of its steps by name."""
    steps: dict[str, dict[str, Row]] = defaultdict(dict)
    for run in books.runs:
        if run["parent_run_id"] is not None and run["step"] is not None:
            steps[run["parent_run_id"]][run["step"]] = run
    for run in books.runs:
        if run["queue"] == "@flow" and run["attempt"]:
            yield run, steps[run["id"]]


def _name(run: Row) -> str:
    return f"{run['flow']} {run['id']}"


def _failed(run: Row) -> bool:
    """Whether it did not do its work; it may also have been cancelled on its own."""
    return run["status"] == "failed" or (run["status"] == "cancelled" and not _skipped(run))


def _is_poison(run: Row) -> bool:
    """Whether so many nodes died during it that it is not retried."""
    return (run["status"], run["reason"]) == ("failed", "poison")


def _skipped(run: Row) -> bool:
    return run["status"] == "cancelled" and run["reason"] in NOT_BEGUN


# ------------------------------------------------------------ F1


def every_flow_ends(books: Books, graphs: dict[str, Graph], slack: timedelta) -> Iterator[str]:
    """Every flow ends, and none of its steps later; each step has one run, and there are no
    others."""
    names = Counter(
        (run["parent_run_id"], run["step"]) for run in books.runs if run["step"] is not None
    )
    yield from (f"{n} runs of step {step} of {id_}" for (id_, step), n in names.items() if n > 1)
    for run, steps in _flows(books):
        graph, name = graphs[run["flow"]], _name(run)
        if run["finished_at"] is None:
            yield f"{name} is {run['status']} and never ended"
            continue
        known = {*graph.after, *(HANDLER + event for event in graph.handlers)}
        if strange := steps.keys() - known:
            yield f"{name} has {sorted(strange)}, which are none of its steps"
        if missing := graph.after.keys() - steps.keys():
            yield f"{name} ended without a word about {sorted(missing)}"
        for step in steps.values():
            if step["finished_at"] is None or step["finished_at"] > run["finished_at"] + slack:
                yield f"step {step['step']} of {name} ended after it, or never"


# ------------------------------------------------------------ F2


def nothing_before_its_turn(
    books: Books, seen: Witness, graphs: dict[str, Graph], slack: timedelta
) -> Iterator[str]:
    """No step begins before those it depends on have ended: by the books, and in fact. Where
    somebody had a flow repeat a failure that it had survived, others do not follow again."""
    said = _said(seen)
    for run, steps in _flows(books):
        if run["id"] in seen.reopened:
            continue
        after = dict(graphs[run["flow"]].after)
        ordinary = tuple(after)
        after |= {name: ordinary for name in steps if name.startswith(HANDLER)}
        after[f"{HANDLER}exit"] = tuple(name for name in steps if name != f"{HANDLER}exit")
        for name, step in steps.items():
            for other in after.get(name, ()):
                if other not in steps or not step["attempt"]:
                    continue
                where = f"{name} of {_name(run)} began before {other}"
                before = steps[other]
                ended_at = before["finished_at"]
                if ended_at is None or step["created_at"] < ended_at - slack:
                    yield f"{where} had ended"
                first = min((line.at for line in said[step["id"]]), default=None)
                last = max((line.at for line in said[before["id"]]), default=None)
                if first is not None and last is not None and first < last:
                    yield f"{where} was done"


def _said(seen: Witness) -> dict[str, list[Evidence]]:
    said: dict[str, list[Evidence]] = defaultdict(list)
    for line in seen.evidence:
        said[line.run].append(line)
    return said


# ------------------------------------------------------------ F3


def steps_run_by_the_rules(books: Books, seen: Witness, graphs: dict[str, Graph]) -> Iterator[str]:
    """A step ran exactly when those before it allowed it; a step that never ran wrote nothing."""
    said = _said(seen)
    for run, steps in _flows(books):
        graph = graphs[run["flow"]]
        for name, before in graph.after.items():
            if name not in steps or any(other not in steps for other in before):
                continue
            step, where = steps[name], f"step {name} of {_name(run)}"
            lets = all(_lets_on(graph, steps[other]) for other in before)
            stopped = step["status"] == "cancelled" and step["reason"] in STOPPED
            is_late = graph.has_timeout and step["reason"] == "flow_timeout"
            if stopped and run["cancel_requested_at"] is None and not is_late:
                yield f"{where} was stopped, though nobody asked for it"
            if step["attempt"] and not lets:
                yield f"{where} ran, though one before it did not let it"
            if not step["attempt"] and lets and not stopped:
                yield f"{where} never ran, though it could: {step['reason']}"
            if name in graph.unmet and not (step["status"] == "cancelled" or _is_poison(step)):
                yield f"{where} {step['status']}, though its condition does not hold"
            if (name in graph.unmet or not step["attempt"]) and said[step["id"]]:
                yield f"{where} did something, though it was not to run"


def _lets_on(graph: Graph, step: Row) -> bool:
    if step["status"] in ("succeeded", "partial"):
        return True
    return step["step"] in graph.survived and _failed(step)


# ------------------------------------------------------------ F4


def one_attempt_at_a_time(books: Books, seen: Witness) -> Iterator[str]:
    """The attempts of a step never work at the same time, and nothing follows its success."""
    steps = {run["id"]: run for run in books.runs if run["parent_run_id"] is not None}
    spans: dict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
    done: dict[str, set[int]] = defaultdict(set)
    for line in seen.evidence:
        if line.run not in steps:
            continue
        first, last = spans[line.run].get(line.attempt, (line.at, line.at))
        spans[line.run][line.attempt] = min(first, line.at), max(last, line.at)
        if line.word == "end":
            done[line.run].add(line.attempt)
    for id_, attempts in spans.items():
        latest = 0.0
        for number, (first, last) in sorted(attempts.items()):
            if first < latest:
                yield f"attempt {number} of step {id_} began while another was at work"
            latest = max(latest, last)
        if steps[id_]["status"] == "succeeded" and steps[id_]["attempt"] not in done[id_]:
            yield f"step {id_} succeeded as an attempt that was never done"
    succeeded = {row["run_id"] for row in books.attempts if row["outcome"] == "succeeded"}
    for id_ in succeeded & steps.keys():
        yield f"step {id_} began again after it had succeeded"


# ------------------------------------------------------------ F5


def ends_follow_from_steps(books: Books, graphs: dict[str, Graph]) -> Iterator[str]:
    """A flow ends as its steps imply, and only the handlers of that end have run."""
    for run, steps in _flows(books):
        graph, name = graphs[run["flow"]], _name(run)
        if run["finished_at"] is None or graph.after.keys() - steps.keys():
            continue
        own = [steps[step] for step in graph.after]
        handlers = {n.removeprefix(HANDLER): s for n, s in steps.items() if n.startswith(HANDLER)}
        expected = _expected(graph, own)
        wanted = {event for event, ends in HANDLERS.items() if expected in ends} | {"exit"}
        if handlers.keys() != wanted & graph.handlers:
            yield f"{name} {expected}, and had the handlers {sorted(handlers)}"
        if any(_failed(handler) for handler in handlers.values()):
            expected = "failed"
        if run["status"] != expected:
            yield f"{name} {run['status']}, and its steps say {expected}"


def _expected(graph: Graph, own: list[Row]) -> str:
    """How a flow ends by its steps, whatever its handlers do."""
    stopped = {s["reason"] for s in own if s["status"] == "cancelled"}
    if "flow_cancelled" in stopped:
        return "cancelled"
    if "flow_timeout" in stopped:
        return "failed" if graph.has_timeout else "cancelled"
    failed = any(_failed(s) and s["step"] not in graph.survived for s in own)
    return "failed" if failed else _without_failure(own)


def _without_failure(own: list[Row]) -> str:
    """How a flow ends in which the flow continued after every failure."""
    if not any(_failed(step) or step["status"] == "partial" for step in own):
        return "succeeded"
    did = any(step["status"] in ("succeeded", "partial") for step in own)
    return "partial" if did else "failed"


# ------------------------------------------------------------ F6


def each_end_is_told_once(books: Books, seen: Witness) -> Iterator[str]:
    """If there are consumers, `flow.finished` arrives once for each run of a flow."""
    told = Counter(event["aggregate"] for event in books.events if event["type"] == "flow.finished")
    if not told:
        return
    for run in books.runs:
        times = told.pop(f"run:{run['id']}", 0)
        expected = int(run["queue"] == "@flow" and run["finished_at"] is not None)
        if times != expected and run["id"] not in seen.reopened:
            yield f"the end of {_name(run)} was told {times} times"
    yield from (f"{aggregate} was told to have ended, and is not a flow" for aggregate in told)


# ------------------------------------------------------------ F7


def no_more_steps_at_once(books: Books, seen: Witness, graphs: dict[str, Graph]) -> Iterator[str]:
    """Of a flow that limits them no more steps are ever at work together."""
    said = _said(seen)
    for run, steps in _flows(books):
        most = graphs[run["flow"]].most_active
        if most is None:
            continue
        spans: dict[tuple[str, int], list[float]] = defaultdict(list)
        for name, step in steps.items():
            for line in said[step["id"]] if not name.startswith(HANDLER) else ():
                spans[name, line.attempt].append(line.at)
        if (busy := most_at_once((min(at), max(at)) for at in spans.values())) > most:
            yield f"{busy} steps of {_name(run)} were at work at once"


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """How many of the stretches of time share a moment; an end makes room for a beginning."""
    changes = [change for began, ended in spans for change in ((began, 1), (ended, -1))]
    working = most = 0
    for _, change in sorted(changes):
        working += change
        most = max(most, working)
    return most
