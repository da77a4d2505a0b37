"""What commands get of their node: the usual variables, those that are named, and a user."""

from __future__ import annotations

import os
import pwd

import pytest

from duebook.errors import Invalid
from duebook.targets.command_setup import (
    command_setup,
    early_variables,
    find_user,
    inherited_variables,
    read_pass_env,
)

NODE = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "XDG_CACHE_HOME": "/root/.cache",
    "PGPASSWORD": "secret",
    "AWS_REGION": "eu",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWSOME": "no",
    "PYTHONHASHSEED": "0",
    "DUEBOOK_DATABASE_URL": "postgresql://u:secret@h/b",
    "DUEBOOK_TOKEN": "secret",
    "DUEBOOK_NAMESPACE": "shop",
}
USUAL = {"PATH", "HOME", "LC_ALL", "XDG_CACHE_HOME"}


@pytest.mark.parametrize(
    ("pass_env", "more"),
    [
        ((), set()),
        (("AWS_REGION",), {"AWS_REGION"}),
        (("AWS_*",), {"AWS_REGION", "AWS_SECRET_ACCESS_KEY"}),
        (("DUEBOOK_*",), {"DUEBOOK_NAMESPACE"}),
        (("DUEBOOK_TOKEN",), {"DUEBOOK_TOKEN"}),
        (("*",), set(NODE) - {"DUEBOOK_DATABASE_URL", "DUEBOOK_TOKEN"}),
        (("NOWHERE", "aws_*"), set()),
    ],
)
def test_commands_get_the_usual_variables_and_those_that_are_named(
    pass_env: tuple[str, ...], more: set[str]
) -> None:
    found = inherited_variables(NODE, pass_env)
    assert set(found) == USUAL | more
    assert all(NODE[name] == value for name, value in found.items())


def test_processes_of_duebook_begin_with_no_secret() -> None:
    assert set(early_variables(NODE)) == USUAL | {"PYTHONHASHSEED"}


def test_names_are_read_from_texts_and_lists() -> None:
    assert read_pass_env(" A, B_* ,") == read_pass_env(["A", "B_*"]) == ("A", "B_*")
    assert read_pass_env("") == read_pass_env([]) == ()


@pytest.mark.parametrize("wrong", ["A=1", "*_KEY", "A*B", "1A", "A B", "é", "A\0"])
def test_what_names_no_variable_is_refused(wrong: str) -> None:
    with pytest.raises(
        Invalid, match=r"pass_env .* is not a variable name or a prefix; use a form"
    ):
        read_pass_env([wrong])


def test_another_user_gets_the_variables_of_a_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    known = pwd.getpwnam("nobody")
    environ = NODE | {"TMPDIR": "/root/tmp", "USER": "root"}
    setup = command_setup("AWS_REGION", "nobody", environ)
    assert setup.user is not None
    assert (setup.user.uid, setup.user.gid) == (known.pw_uid, known.pw_gid)
    assert setup.inherited == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "AWS_REGION": "eu",
        "HOME": known.pw_dir,
        "USER": "nobody",
        "LOGNAME": "nobody",
        "SHELL": known.pw_shell or "/bin/sh",
    }
    assert "TMPDIR" in command_setup("TMPDIR", "nobody", environ).inherited


def test_who_cannot_be_that_user_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    known = pwd.getpwnam("nobody")
    with pytest.raises(Invalid, match=r'run_as "nobody-here" is not a user of this'):
        find_user("nobody-here")
    with pytest.raises(Invalid, match="run_as root would give commands full access"):
        find_user("root")
    monkeypatch.setattr("os.geteuid", lambda: known.pw_uid)
    with pytest.raises(Invalid, match='run_as "nobody" is the user that the node runs as'):
        find_user("nobody")
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000)
    with pytest.raises(Invalid, match=r'"nobody" needs root: .* the node runs as user 4000000'):
        find_user("nobody")
    assert os.geteuid() == 4_000_000
