"""Use cases of runs: list, cancel and retry them, wait for them, read what they printed."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from duebook.book.audit import Auditor
from duebook.book.waiting import not_in_time, read_timeout, wait_in_turn, watch_of
from duebook.errors import Invalid, NotFound, shorten
from duebook.ids import looks_like_prefix, new_id
from duebook.model.filters import check_page, load_run_filter
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.store.values import START, Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Unpack

    from duebook.book.waiting import Timeout
    from duebook.model.filters import RunsWanted
    from duebook.model.run import Attempt, LogLine, Run
    from duebook.store.base import Store, Tx

    # inside the class below `list` is a method
    Attempts = list[Attempt]
    Lines = list[tuple[Page, LogLine]]
    RunList = Listing[Run]
    Ended = list[Run]

__all__ = ["Runs"]


class Runs:
    """Read, cancel and retry runs. Every method takes an id or the start of one."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._audit = Auditor(namespace, by)

    def get(self, run_id: str) -> Run:
        """Return one run; raises NotFound, also for runs of other namespaces."""
        return self._store.read(lambda tx: self._find(tx, run_id))

    def list(
        self,
        schedule: str | None = None,
        limit: int = 20,
        *,
        cursor: str | None = None,
        **wanted: Unpack[RunsWanted],
    ) -> RunList:
        """Return a page of runs, newest first; for a schedule also after it was deleted.

        Filters: `status`, `origin`, `queue`, `flow`, `task` (runs enqueued for it), and `since` and
        `until` (for creation times; with a `schedule`, for due times). Pass `next_cursor` for the
        next page; a page may be short and still be followed by another. Raises NotFound,
        InvalidFilter with every wrong filter, and BadCursor.
        """
        check_page(limit)
        namespace, key = self._namespace, self._store.cursor_key()

        def work(tx: Tx) -> RunList:
            schedule_id = None
            if schedule is not None:
                schedule_id = tx.schedules.find_schedule(namespace, schedule, deleted=True)
            found = load_run_filter(dict(wanted), schedule_id)
            asked = ["runs", namespace, found.asked]
            after = read_cursor(key, asked, cursor, "i" if schedule_id is None else "ii")
            page = tx.lists.list_runs(namespace, found, after, limit)
            return Listing(page.rows, write_cursor(key, asked, page.last))

        return self._store.read(work)

    def short_ids(self, runs: Sequence[Run]) -> dict[str, str]:
        """For each id, return the shortest prefix that currently identifies the run."""
        return self._store.read(lambda tx: {run.id: tx.runs.short_id(run.id) for run in runs})

    def cancel(self, run_id: str) -> str:
        """Return `cancelled`, or `requested` if it runs; raises Conflict if it has finished."""

        def work(tx: Tx) -> str:
            run = self._find(tx, run_id)
            how = tx.runs.cancel(run.id, "cancelled")
            self._note(tx, "cancel", run, how)
            return how

        return self._store.transact(work)

    def retry(self, run_id: str) -> Run:
        """Start a finished run again, as a new attempt; raises Conflict if it has not finished.

        A flow run continues where it failed.
        """

        def work(tx: Tx) -> Run:
            run = self._find(tx, run_id)
            if run.flow is None:
                tx.runs.reopen(run.id)
            else:
                from duebook.book.flows import reopen_flow  # rarely needed, and slow to import

                reopen_flow(tx, run)
            self._note(tx, "retry", run, "queued")
            return tx.runs.get_run(run.id)

        return self._store.transact(work)

    def wait(self, run_id: str, timeout: Timeout = None) -> Run:
        """Wait until a run has ended, in any status, and return it.

        `timeout` is a number of seconds or a duration such as `30s`; the default waits forever.
        Raises WaitTimeout if the run has not ended by then (it continues), and NotFound.

        >>> import tempfile
        >>> from duebook import Duebook
        >>> book = Duebook(f"{tempfile.mkdtemp()}/books.db")
        >>> @book.task
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> with book.running():
        ...     run = book.enqueue(double, {"number": 21})
        ...     run.wait("1m").output
        42
        """
        seconds = read_timeout(timeout)
        run = self.get(run_id)
        if not run.is_active:
            return run
        ended = watch_of(self._store).when_ended(run.id)
        try:
            return ended.result(seconds)
        except (TimeoutError, CancelledError):
            if ended.done() and not ended.cancelled():  # it ended at the last moment
                return ended.result()
            raise not_in_time(run.id, seconds or 0.0) from None
        finally:
            ended.cancel()

    def wait_all(self, run_ids: Sequence[str], timeout: Timeout = None) -> Ended:
        """As `wait`, until all of several runs have ended; returns them in the given order."""
        return wait_in_turn(self.wait, run_ids, timeout)

    def output(self, run_id: str) -> Any:
        """Return the run's complete return value; None if it returned nothing."""

        def work(tx: Tx) -> Any:
            run = self._find(tx, run_id)
            return run.output if run.output_size is None else tx.runs.get_output(run.id)

        return self._store.read(work)

    def attempts(self, run_id: str) -> Attempts:
        """Return the earlier attempts of the run, oldest first."""
        return self._store.read(lambda tx: tx.runs.list_attempts(self._find(tx, run_id).id))

    def log(self, run_id: str, after: Page = START, limit: int = 1_000) -> Lines:
        """Return log lines after a position, each with its own position."""
        if limit < 1:
            raise Invalid(f"limit {limit} is not a number, 1 or greater")

        def work(tx: Tx) -> Lines:
            return tx.runs.list_log(self._find(tx, run_id).id, after, limit)

        return self._store.read(work)

    def _note(self, tx: Tx, action: str, run: Run, status: str) -> None:
        before, after = {"status": run.status}, {"status": status}
        self._audit.note(tx, action, "run", run.schedule or run.task or "", run.id, before, after)

    def _find(self, tx: Tx, run_id: str) -> Run:
        if not isinstance(run_id, str) or not looks_like_prefix(run_id):
            raise NotFound(f'run "{shorten(run_id)}" does not exist; an id looks like {new_id()}')
        return tx.runs.get_run(tx.runs.find_run(self._namespace, run_id))
