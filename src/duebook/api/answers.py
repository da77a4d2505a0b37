"""What a route answers: a status, JSON and headers, as a value that can also be kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from duebook.model.forms import schedule_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.schedule import Schedule

__all__ = ["Answer", "about_schedule", "listed"]


@dataclass(frozen=True, slots=True)
class Answer:
    body: Any = None
    """JSON; None for no content"""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        if self.body is None:
            status = 204 if self.status == 200 else self.status
            return Response(status_code=status, headers=dict(self.headers))
        text = json.dumps(self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return Response(text, self.status, dict(self.headers), "application/json")


def about_schedule(schedule: Schedule, status: int = 200) -> Answer:
    """A schedule, with its version as the entity tag."""
    headers = {"ETag": f'"{schedule.version}"'}
    if status == 201:
        headers["Location"] = f"/api/v1/schedules/{schedule.id}"
    return Answer(schedule_form(schedule), status, headers)


def listed(items: list[Any], next_cursor: str | None = None) -> Answer:
    return Answer({"items": items, "next_cursor": next_cursor})
