"""The use cases of flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Protocol

from duebook.client.arguments import JUDGED, Cursor, FlowName, Given, Limit
from duebook.client.use_cases import needs_database, operation, part_of
from duebook.errors import Invalid, shorten
from duebook.explain.flow_runs import FlowExplanation
from duebook.model.access import Role
from duebook.model.codec import Name
from duebook.model.fields import check_payload, read_name
from duebook.model.flow_view import FlowView
from duebook.model.listing import Listing
from duebook.model.run import Run

__all__ = ["FlowsClient"]

# inside the class below `list` is a method
NameList = list[str]
ProblemList = list[dict[str, Any]]
RunList = list[Run]
Views = Listing[FlowView]


def _read_directory(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise Invalid(f"{key} {shorten(value)} is not the name of a directory")
    return value


_FROM_STEP = replace(JUDGED, description="Start from this step; by default, where it failed.")


_HUMAN_STEP = replace(JUDGED, description="The step that waits.")
_COMMENT = replace(JUDGED, description="Why; kept with the answer.")


class FlowsClient(Protocol):
    """Every method takes the name of a flow, or the id of a run of one; raises NotFound."""

    @operation("list_flows", "GET", "/flows", Role.VIEWER, "flow ls")
    def list(self, limit: Limit = 100, *, cursor: Cursor = None) -> Views:
        """List the flows of a namespace by name, each with its latest run, and the problems of flow
        files."""

    @part_of("list_flows", "problems", limit=1)
    def problems(self) -> ProblemList: ...

    @operation(
        *("validate_flow", "POST", "/flows/validate", Role.OPERATOR),
        no_cli="`flow check` checks files without a server",
        errors=(429,),
        reads=True,
        computes=True,
        result="problems",
    )
    def validate(
        self,
        source: Annotated[str, replace(JUDGED, description="The text of a flow file.")],
        name: Annotated[str, Given(json=Name, read=read_name)] = "flow",
    ) -> ProblemList:
        """Validate the text of a flow file without saving it; each problem has a line, a column and
        a hint."""

    @operation(
        *("forget_flows", "POST", "/flows/forget", Role.ADMIN, "flow forget"),
        errors=(409,),
        result="names",
    )
    def forget(
        self,
        directory: Annotated[
            str, Given("Its name, such as `flows` of flows/etl.yaml.", read=_read_directory)
        ],
    ) -> NameList:
        """Delete the flows of a directory that no node uses any more, with their schedules."""

    @operation("get_flow", "GET", "/flows/{name}", Role.VIEWER, "flow show")
    def get(self, name: FlowName) -> FlowView:
        """Get a flow, with its steps, its params and its latest run."""

    @operation("list_flow_runs", "GET", "/flows/{name}/runs", Role.VIEWER, "flow show")
    def runs(self, name: FlowName, limit: Limit = 20) -> RunList:
        """List the runs of a flow, newest first."""

    @operation(
        *("start_flow", "POST", "/flows/{name}/start", Role.OPERATOR, "flow start"),
        status=201,
        errors=(409,),
    )
    def start(
        self,
        name: FlowName,
        params: Annotated[Mapping[str, Any] | None, Given(read=check_payload, send=dict)] = None,
    ) -> Run:
        """Start a run of a flow now."""

    @operation("stop_flow", "POST", "/flows/{name}/stop", Role.OPERATOR, "flow stop", errors=(409,))
    def stop(self, name: FlowName) -> RunList:
        """Cancel the active runs of a flow."""

    @operation(
        *("restart_flow", "POST", "/flows/{name}/restart", Role.OPERATOR, "flow restart"),
        errors=(409,),
    )
    def restart(self, name: FlowName) -> FlowView:
        """Stop a flow if it is running, wait as its file says, and start it again."""

    @operation(
        *("get_performed_flow", "GET", "/flows/runs/{run_id}", Role.VIEWER, "flow retry"),
        errors=(409,),
    )
    def performed(self, run_id: FlowName) -> FlowView:
        """Get a flow as a run executes it, from the file that the run started with; `last_run` is
        that run."""

    @operation("list_steps", "GET", "/flows/runs/{run_id}/steps", Role.VIEWER, "flow show")
    def steps(self, run_id: FlowName) -> RunList:
        """List the runs of the steps of a run, in the order in which they were created."""

    @operation(
        *("explain_flow_run", "GET", "/flows/runs/{run_id}/explain", Role.VIEWER, "explain"),
        errors=(409,),
    )
    def explain(
        self,
        run_id: FlowName,
        tz: Annotated[
            str | None, Given("The time zone of the sentences; by default the schedule's.")
        ] = None,
    ) -> FlowExplanation:
        """Explain in a sentence how far a run has come, and what each of its steps is waiting
        for."""

    @operation(
        *("retry_flow", "POST", "/flows/runs/{run_id}/retry", Role.OPERATOR, "flow retry"),
        errors=(409,),
    )
    def retry(self, run_id: FlowName, step: Annotated[str | None, _FROM_STEP] = None) -> Run:
        """Continue a finished run, from where it failed or from a given step."""

    @operation(
        *("approve_step", "POST", "/flows/runs/{run_id}/approve", Role.OPERATOR, "flow approve"),
        errors=(409,),
    )
    def approve(
        self,
        run_id: FlowName,
        step: Annotated[str, _HUMAN_STEP],
        comment: Annotated[str | None, _COMMENT] = None,
    ) -> Run:
        """Approve a step that waits for a person; the output of its run says who did and when."""

    @operation(
        *("reject_step", "POST", "/flows/runs/{run_id}/reject", Role.OPERATOR, "flow reject"),
        errors=(409,),
    )
    def reject(
        self,
        run_id: FlowName,
        step: Annotated[str, _HUMAN_STEP],
        comment: Annotated[str | None, _COMMENT] = None,
    ) -> Run:
        """Reject a step that waits for a person; the step fails."""

    @needs_database("source()")
    def source(self, name: str) -> str: ...

    @needs_database("broken_source()")
    def broken_source(self, name: str) -> str | None: ...

    @needs_database("broken_file()")
    def broken_file(self, place: str) -> str | None: ...

    @needs_database("params()")
    def params(self, run_id: str) -> dict[str, Any]: ...
