"""The response of a route: a status, JSON and headers, as a value that can also be stored."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.responses import Response

from duebook.api.compression import compress
from duebook.client.use_cases import V1
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

    from duebook.model.listing import Listing
    from duebook.model.schedule import Schedule

__all__ = ["PAGE_BYTES", "Answer", "about_schedule", "fitting", "listed", "paged", "write_json"]

PAGE_BYTES: Final = 2_000_000
"""Characters of JSON after which a page ends; it has at least one item, however large."""
FIRST_LOOK: Final = 50
NEXT_LOOK: Final = 100
T = TypeVar("T")
write_json: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
"""JSON as it is sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    body: Any = None
    """JSON; None for no content"""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    items: Sequence[str] | None = None
    """for a page: its serialized items, one or several in a text; `body` has the other members"""

    def kept(self) -> dict[str, Any]:
        """As JSON, to be stored and sent again; pages are never stored."""
        return {"body": self.body, "status": self.status, "headers": dict(self.headers)}

    def response(self, request: Request | None = None) -> Response:
        """The HTTP response to `request`; long JSON is compressed if the client accepts that."""
        if self.body is None:
            status = 204 if self.status == 200 else self.status
            return Response(status_code=status, headers=dict(self.headers))
        text = write_json(self.body)
        if self.items is not None:
            text = f'{{"items":[{",".join(self.items)}],{text[1:]}'
        content, headers = text.encode(), dict(self.headers)
        if request is not None:
            content, headers = compress(content, request, headers)
        return Response(content, self.status, headers, "application/json")


def about_schedule(schedule: Schedule, status: int = 200) -> Answer:
    """A schedule, with its version as the entity tag."""
    headers = {"ETag": f'"{schedule.version}"'}
    if status == 201:
        headers["Location"] = f"{V1}/schedules/{schedule.id}"
    return Answer(encode(schedule), status, headers)


def listed(items: list[Any], next_cursor: str | None = None) -> Answer:
    return Answer({"items": items, "next_cursor": next_cursor})


def _page(items: Sequence[str], next_cursor: str | None) -> Answer:
    return Answer({"next_cursor": next_cursor}, items=items)


def paged(
    read: Callable[[str | None, int], Listing[T]],
    form: Callable[[T], Any],
    cursor: str | None,
    limit: int,
) -> Answer:
    """Up to `limit` items of a list, or fewer if they exceed the size of a page. `read` returns
    those after a cursor, a few at a time, so that no more than these are ever in memory."""
    items: list[str] = []
    number, left, most = 0, PAGE_BYTES, FIRST_LOOK
    while True:
        asked = min(most, limit - number)
        page = read(cursor, asked)
        forms = [form(item) for item in page]
        text = write_json(forms)[1:-1]
        if len(text) > left:
            fit = fitting([write_json(one) for one in forms], left)[0] or int(not items)
            if not fit:
                return _page(items, cursor)
            if fit < len(forms):
                page = read(cursor, fit)
                items += [write_json(form(item)) for item in page]
                return _page(items, page.next_cursor)
        if text:
            items.append(text)
        number += len(forms)
        left -= len(text)
        cursor, most = page.next_cursor, NEXT_LOOK
        if cursor is None or len(page) < asked or number >= limit or left <= 0:
            return _page(items, cursor)


def fitting(texts: Sequence[str], most: int) -> tuple[int, int]:
    """How many of the first texts fit into `most` characters, and how many characters they have."""
    size = 0
    for number, text in enumerate(texts):
        if size + len(text) > most:
            return number, size
        size += len(text)
    return len(texts), size
