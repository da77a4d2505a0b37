"""The whole log of a run: as JSON for the script on its page, and as a text file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

from starlette.responses import Response, StreamingResponse

from duebook.api.log_stream import place_text, read_place
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.model.access import Role
from duebook.store.values import START
from duebook.web.log_view import fitting_lines, text_of_log
from duebook.web.page_request import CurrentPage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.book import Book
    from duebook.model.run import LogLine
    from duebook.store.values import Page

__all__ = ["operations"]

operations = Operations("/runs/{run_id}", "pages")

BATCH: Final = 5_000
BATCH_SIZE: Final = 1_000_000
"""Bytes of the lines in one response."""


@operations("GET", "/lines", Role.VIEWER)
def get_lines(
    page: CurrentPage, run_id: str, after: Annotated[str | None, Query(max_length=30)] = None
) -> Response:
    """Lines after a place, each as attempt, number, time, stream and text; continue at `last`."""
    run = page.book.runs.get(run_id)
    found = page.book.runs.log(run.id, read_place(after or None), BATCH)
    lines = fitting_lines(found, newest=False, size=BATCH_SIZE)
    forms = [
        (place.attempt, place.seq, round(line.at.timestamp() * 1_000), line.stream, line.text)
        for place, line in lines
    ]
    last = place_text(lines[-1][0]) if lines else after or ""
    form = {"lines": forms, "last": last, "more": len(lines) < len(found) or len(found) == BATCH}
    return Response(json.dumps(form, ensure_ascii=False), media_type="application/json")


@operations("GET", "/log.txt", Role.VIEWER)
def get_log_file(page: CurrentPage, run_id: str) -> Response:
    """The log as a text file."""
    run = page.book.runs.get(run_id)
    name = f"{run.id}.log.txt"
    return StreamingResponse(
        (text.encode() for text in text_of_log(_all_lines(page.book, run.id))),
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
        media_type="text/plain; charset=utf-8",
    )


def _all_lines(book: Book, run_id: str) -> Iterator[tuple[Page, LogLine]]:
    place = START
    while found := book.runs.log(run_id, place, BATCH):
        yield from found
        place = found[-1][0]
