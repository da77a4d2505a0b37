"""The problems of a definition, field by field."""

from __future__ import annotations

from duebook.errors import Invalid

__all__ = ["InvalidSchedule"]


class InvalidSchedule(Invalid):
    """A definition with invalid fields; `problems` maps each field to its problem."""

    code = "invalid_schedule"

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidSchedule], tuple[dict[str, str]]]:
        return type(self), (self.problems,)
