"""What people do with the runs of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.book.runs import Runs
from duebook.errors import Invalid, NotFound, shorten
from duebook.ids import SHORT_ID, looks_like_prefix, new_id
from duebook.remote.readings import read_attempt, read_line, read_run
from duebook.store.values import START, Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from duebook.book.runs import Attempts, Lines, RunList
    from duebook.model.filters import RunsWanted
    from duebook.model.run import Run
    from duebook.remote.server import Server

__all__ = ["RemoteRuns"]


class RemoteRuns(Runs):
    """As Runs."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def get(self, run_id: str) -> Run:
        return read_run(self._details(run_id))

    def list(
        self,
        schedule: str | None = None,
        limit: int = 20,
        *,
        cursor: str | None = None,
        **wanted: Unpack[RunsWanted],
    ) -> RunList:
        given = dict(wanted)
        return self._server.pages(
            read_run, limit, "runs", schedule=schedule, cursor=cursor, **given
        )

    def short_ids(self, runs: Sequence[Run]) -> dict[str, str]:
        """Beginnings that tell these runs apart; the server says so, should one mean others too."""
        ids = sorted(run.id for run in runs)
        pairs = zip(ids, [None, *ids], [*ids[1:], None], strict=False)
        return {own: _beginning(own, before, after) for own, before, after in pairs}

    def cancel(self, run_id: str) -> str:
        form = self._server.post("runs", _checked(run_id), "cancel")
        return "cancelled" if form["status"] == "cancelled" else "requested"

    def retry(self, run_id: str) -> Run:
        return read_run(self._server.post("runs", _checked(run_id), "retry"))

    def output(self, run_id: str) -> Any:
        return self._server.get("runs", _checked(run_id), "output")["output"]

    def attempts(self, run_id: str) -> Attempts:
        return [read_attempt(form) for form in self._details(run_id)["attempts"]]

    def log(self, run_id: str, after: Page = START, limit: int = 1_000) -> Lines:
        if limit < 1:
            raise Invalid(f"limit {limit} is no number from 1 on")
        place = None if after == START else f"{after.attempt}.{after.seq}"
        found = self._server.get("runs", _checked(run_id), "log", cursor=place, limit=limit)
        return [read_line(form) for form in found["items"]]

    def _details(self, run_id: str) -> dict[str, Any]:
        form: dict[str, Any] = self._server.get("runs", _checked(run_id))
        return form


def _checked(run_id: object) -> str:
    if isinstance(run_id, str) and looks_like_prefix(run_id):
        return run_id
    raise NotFound(f'run "{shorten(run_id)}" does not exist; an id looks like {new_id()}')


def _beginning(own: str, *others: str | None) -> str:
    length = SHORT_ID
    while any(other is not None and other[:length] == own[:length] for other in others):
        length += 1
    return own[:length]
