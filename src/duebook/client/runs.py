"""What is done with runs, here or through a server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
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


def _place_text(place: Page) -> str | None:
    return None if place == START else f"{place.attempt}.{place.seq}"


def _check_limit(limit: int) -> int:
    if limit < 1:
        raise Invalid(f"limit {limit} is no number from 1 on")
    return limit


class RunsClient(Protocol):
    """Every method takes an id or the beginning of one; raises NotFound, and Conflict for one that
    several runs begin with."""

    @operation("list_runs", "GET", "/runs", Role.VIEWER, "runs")
    def list(
        self,
        schedule: Annotated[str | None, Given("Of this one only: a name or an id.")] = None,
        limit: Limit = 20,
        *,
        status: RunStatus | None = None,
        origin: Origin | None = None,
        queue: str | None = None,
        flow: Annotated[str | None, Given("Of this flow only, and not of its steps.")] = None,
        task: Annotated[str | None, Given("Enqueued for this task.")] = None,
        since: Annotated[
            str | datetime | None, Given("Made from then on; of a schedule: due from then on.")
        ] = None,
        until: Annotated[str | datetime | None, Given("Made, or due, up to then.")] = None,
        cursor: Cursor = None,
    ) -> RunList:
        """The runs of a namespace, the newest first; those of a schedule by their due times."""

    @operation("get_run", "GET", "/runs/{run_id}", Role.VIEWER, "show", errors=(409,))
    def get(self, run_id: RunId) -> Run:
        """One run, with the attempts before its latest; the beginning of an id stands for the
        whole."""

    @operation(
        "cancel_run", "POST", "/runs/{run_id}/cancel", Role.OPERATOR, "cancel", errors=(409,)
    )
    def cancel(self, run_id: RunId) -> str:
        """Cancel a run: at once when it is queued, by asking its node when it is under way."""

    @operation("retry_run", "POST", "/runs/{run_id}/retry", Role.OPERATOR, "retry", errors=(409,))
    def retry(self, run_id: RunId) -> Run:
        """Retry a run that has ended, as another attempt."""

    @operation(
        *("get_output", "GET", "/runs/{run_id}/output", Role.VIEWER, "output"),
        errors=(409,),
        result="output",
    )
    def output(self, run_id: RunId) -> Any:
        """What a run returned, however large."""

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
            Page, Given("Go on after this place.", alias="cursor", send=_place_text)
        ] = START,
        limit: Annotated[
            int, Given("At most so many lines.", ge=1, le=10_000, send=_check_limit)
        ] = 1_000,
    ) -> Lines:
        """What a run printed: stdout and stderr as they came.

        `Accept` chooses between JSON, `text/plain` and `text/event-stream`. A stream grows with the
        run: an event `line` for each line, whose id is the place to go on from, and an event `end`
        with the run when that has ended.
        """

    def short_ids(self, runs: Sequence[Run]) -> dict[str, str]:
        """For each id the beginning of it that stands for this run alone, by now."""
