"""What people do with the flows of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.book.flows import Flows
from duebook.errors import Invalid, shorten
from duebook.explain.flow_runs import FlowExplanation, StepExplanation
from duebook.model.flow_view import FlowView
from duebook.remote.needs import needs_database
from duebook.remote.readings import read_run, read_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from duebook.book.flows import NameList, ProblemList, RunList, Views
    from duebook.model.run import Run
    from duebook.remote.server import Server

__all__ = ["RemoteFlows"]


class RemoteFlows(Flows):
    """As Flows; the texts of files are the database's own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(self, limit: int = 100, *, cursor: str | None = None) -> Views:
        return self._server.pages(_view, limit, "flows", cursor=cursor)

    def get(self, name: str) -> FlowView:
        return _view(self._server.get("flows", _text(name)))

    def source(self, name: str) -> NoReturn:
        raise needs_database("source()")

    def broken_source(self, name: str) -> NoReturn:
        raise needs_database("broken_source()")

    def broken_file(self, place: str) -> NoReturn:
        raise needs_database("broken_file()")

    def params(self, run_id: str) -> NoReturn:
        raise needs_database("params()")

    def performed(self, run_id: str) -> FlowView:
        return _view(self._server.get("flows", "runs", _text(run_id)))

    def forget(self, directory: str) -> NameList:
        names: NameList = self._server.post("flows", "forget", body={"directory": directory})[
            "names"
        ]
        return names

    def problems(self) -> ProblemList:
        problems: ProblemList = self._server.get("flows", limit=1)["problems"]
        return problems

    def validate(self, source: str, name: str = "flow") -> ProblemList:
        body = {"source": source, "name": name}
        found = self._server.send("POST", "flows", "validate", body=body)
        problems: ProblemList = found["problems"]
        return problems

    def start(self, name: str, params: Mapping[str, Any] | None = None) -> Run:
        body = {"params": dict(params or {})}
        return read_run(self._server.post("flows", _text(name), "start", body=body))

    def stop(self, name: str) -> RunList:
        found = self._server.post("flows", _text(name), "stop")
        return [read_run(form) for form in found["items"]]

    def restart(self, name: str) -> FlowView:
        return _view(self._server.post("flows", _text(name), "restart"))

    def retry(self, run_id: str, step: str | None = None) -> Run:
        body = {} if step is None else {"step": step}
        return read_run(self._server.post("flows", "runs", _text(run_id), "retry", body=body))

    def steps(self, run_id: str) -> RunList:
        found = self._server.get("flows", "runs", _text(run_id), "steps")
        return [read_run(form) for form in found["items"]]

    def explain(self, run_id: str, tz: str | None = None) -> FlowExplanation:
        form = self._server.get("flows", "runs", _text(run_id), "explain", tz=tz)
        steps = tuple(read_value(StepExplanation, step) for step in form["steps"])
        return read_value(FlowExplanation, form, steps=steps)

    def runs(self, name: str, limit: int = 20) -> RunList:
        found = self._server.get("flows", _text(name), "runs", limit=limit)
        return [read_run(form) for form in found["items"]]


def _view(form: dict[str, Any]) -> FlowView:
    run = form.get("last_run")
    return read_value(FlowView, form, last_run=None if run is None else read_run(run))


def _text(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise Invalid(f"flow {shorten(name)} is no text")
