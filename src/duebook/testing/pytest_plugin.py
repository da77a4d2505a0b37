"""The pytest fixture `simulation`: creates simulations, and closes them after the test."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.testing import Simulation

__all__ = ["simulation"]


@pytest.fixture
def simulation() -> Iterator[Callable[..., Simulation]]:
    """Call it as you would call `duebook.testing.Simulation`."""
    from duebook.testing import Simulation  # imported only for tests that use it

    with ExitStack() as stack:

        def make(*arguments: Any, **options: Any) -> Simulation:
            return stack.enter_context(Simulation(*arguments, **options))

        yield make
