"""Commands as targets: what of their environment is shown, and what is refused."""

from __future__ import annotations

import pytest

from duebook.errors import Invalid
from duebook.model.target import CommandTarget, TaskTarget, load_target

FORM = {"command": ["pg_dump", "shop"], "env": {"PGPASSWORD": "hunter2", "LANG": "C"}, "cwd": "/"}


def test_the_environment_of_a_command_is_hidden_where_it_is_shown() -> None:
    target = load_target(FORM)
    assert isinstance(target, CommandTarget)
    assert target.masked().to_json() == {
        "command": ["pg_dump", "shop"],
        "env": {"LANG": "***", "PGPASSWORD": "***"},
        "cwd": "/",
    }
    assert target.to_json() == FORM
    assert TaskTarget("report").masked() == TaskTarget("report")


def test_what_hides_a_value_is_not_taken_for_one() -> None:
    shown = load_target(FORM).masked().to_json()
    with pytest.raises(
        Invalid,
        match=r'target env "LANG" is \*\*\*, a placeholder for a hidden value; give the real value',
    ):
        load_target(shown)
