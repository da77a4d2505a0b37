"""The use cases of runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Protocol

from duebook.client.arguments import Cursor, Given, Limit, RunId
from duebook.client.use_cases import operation, part_of
from duebook.errors import Invalid
from duebook.model.access import Role
from duebook.model.listing import Listing
from duebook.model.run import Attempt, LogLine, Origin, Run, RunStatus
from duebook.store.values import START, Page

__all__ = ["RunsClient"]

# inside the class below `list` is a method
Attempts = list[Attempt]
Lines = list[tuple[Page, LogLine]]
RunList = Listing[Run]
Ended = list[Run]


def _place_text(place: Page) -> str | None:
    return None if place == START else f"{place.attempt}.{place.seq}"


def _check_limit(limit: int) -> int:
    if limit < 1:
        raise Invalid(f"limit {limit} is not a number, 1 or greater")
    return limit


class RunsClient(Protocol):
    """Every method takes an id or its first characters; raises NotFound, and Conflict if several
    runs match."""

    @operation("list_runs", "GET", "/runs", Role.VIEWER, "runs")
    def list(
        self,
        schedule: Annotated[str | None, Given("Only of this schedule: a name or an id.")] = None,
        limit: Limit = 20,
        *,
        status: RunStatus | None = None,
        origin: Origin | None = None,
        queue: str | None = None,
        flow: Annotated[str | None, Given("Only of this flow, without its steps.")] = None,
        task: Annotated[str | None, Given("Only those enqueued for this task.")] = None,
        since: Annotated[
            str | datetime | None, Given("Created, or of a schedule due, at this time or later.")
        ] = None,
        until: Annotated[
            str | datetime | None, Given("Created, or due, at this time or earlier.")
        ] = None,
        cursor: Cursor = None,
    ) -> RunList:
        """List the runs of a namespace, newest first; those of a schedule by their due times."""

    @operation("get_run", "GET", "/runs/{run_id}", Role.VIEWER, "show", errors=(409,))
    def get(self, run_id: RunId) -> Run:
        """Get a run with its earlier attempts; a unique prefix of its id is enough."""

    @operation(
        *("wait_run", "GET", "/runs/{run_id}/wait", Role.VIEWER, "wait"),
        errors=(409, 429),
    )
    def wait(
        self,
        run_id: RunId,
        timeout: Annotated[
            str | timedelta | float | None,
            Given("How long to wait: a duration, or seconds; 30s by default, at most 1m."),
        ] = None,
    ) -> Run:
        """Wait until a run has ended; returns the run as it is then, or when the time is up.

        Its `status` shows whether it has ended; if not, send the request again. The Python client
        raises WaitTimeout instead when its own timeout is over.
        """

    def wait_all(
        self, run_ids: Sequence[str], timeout: str | timedelta | float | None = None
    ) -> Ended:
        """As `wait`, until all of several runs have ended; returns them in the given order."""

    @operation(
        "cancel_run", "POST", "/runs/{run_id}/cancel", Role.OPERATOR, "cancel", errors=(409,)
    )
    def cancel(self, run_id: RunId) -> str:
        """Cancel a run: a queued run immediately; a running one is stopped by its node."""

    @operation("retry_run", "POST", "/runs/{run_id}/retry", Role.OPERATOR, "retry", errors=(409,))
    def retry(self, run_id: RunId) -> Run:
        """Retry a finished run, as a new attempt."""

    @operation(
        *("get_output", "GET", "/runs/{run_id}/output", Role.VIEWER, "output"),
        errors=(409,),
        result="output",
    )
    def output(self, run_id: RunId) -> Any:
        """Get the whole output of a run, however large."""

    @part_of("get_run", "attempts")
    def attempts(self, run_id: RunId) -> Attempts: ...

    @operation(
        *("get_log", "GET", "/runs/{run_id}/log", Role.VIEWER, "logs"),
        media=("text/plain", "text/event-stream"),
        errors=(409,),
    )
    def log(
        self,
        run_id: RunId,
        after: Annotated[
            Page, Given("Continue after this place.", alias="cursor", send=_place_text)
        ] = START,
        limit: Annotated[
            int, Given("The most lines to return.", ge=1, le=10_000, send=_check_limit)
        ] = 1_000,
    ) -> Lines:
        """Get the log of a run: stdout and stderr in the order in which they were printed.

        `Accept` selects JSON, `text/plain` or `text/event-stream`. A stream follows the run: an
        event `line` for each line, whose id is the place to continue from, and an event `end` with
        the run when it has finished.
        """

    def short_ids(self, runs: Sequence[Run]) -> dict[str, str]:
        """For each id, return a prefix that currently identifies the run."""
