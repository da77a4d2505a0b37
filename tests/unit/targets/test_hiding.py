"""What is hidden in what a run prints."""

from __future__ import annotations

from duebook.model.target import load_target
from duebook.targets.hiding import hiding, hiding_env


def test_the_longest_secret_is_hidden_first() -> None:
    assert hiding(["s3cret", "s3cret-and-more"])("a s3cret-and-more, a s3cret") == "a ***, a ***"


def test_values_of_variables_are_hidden_unless_they_are_short() -> None:
    env = {"KEY": "hunter2hunter2", "MODE": "full", "PEM": "-----BEGIN\nMIIEvQIBADAN\n--"}
    hide = hiding_env(load_target({"command": ["env"], "env": env}))
    printed = "KEY=hunter2hunter2 MODE=full MIIEvQIBADAN"
    assert hide(printed) == "KEY=*** MODE=full ***"


def test_of_other_targets_nothing_is_hidden() -> None:
    assert hiding_env(load_target("digest"))("hunter2hunter2") == "hunter2hunter2"
