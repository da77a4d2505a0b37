"""A note that accompanies a result, as a value."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from duebook.model.codec import Shown, shown

__all__ = ["Note"]


@shown()
class Note(NamedTuple):
    """A note about a change."""

    code: Annotated[str, Shown(example="missed")]
    message: str
