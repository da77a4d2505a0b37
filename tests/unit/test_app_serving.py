"""Which namespaces the node of a program serves, and one of the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from duebook.app import Duebook
from duebook.cli import main
from duebook.errors import Invalid
from duebook.model.serving import ALL, Serving

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.engine.node import NodeOptions
    from duebook.targets.spawner import Spawner

PROGRAM = "from duebook import Duebook\nbook = Duebook('books.db', namespace='shop')\n"


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Serving]:
    """What the nodes serve that a test would have begun."""
    found: list[Serving] = []

    def serve(_: Duebook, __: object, options: NodeOptions, *___: object) -> None:
        found.append(options.namespaces)

    monkeypatch.setattr(Duebook, "serve", serve)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("DUEBOOK_SERVE", "DUEBOOK_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.parametrize(
    ("namespace", "given", "served"),
    [
        (None, {}, Serving(("default",))),
        ("shop", {}, Serving(("shop",))),
        ("shop", {"serve": ["billing", "shop"]}, Serving(("billing", "shop"))),
        ("shop", {"serve": "*"}, ALL),
    ],
)
def test_the_node_of_a_program_serves_the_namespace_of_its_book(
    begun: list[Serving], namespace: str | None, given: dict[str, Any], served: Serving
) -> None:
    Duebook("books.db", namespace).run(**given)
    assert begun == [served]


def test_the_environment_and_the_file_say_what_is_served(
    begun: list[Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "duebook.toml").write_text('serve = ["billing", "shop"]\n')
    Duebook("books.db").run()
    monkeypatch.setenv("DUEBOOK_SERVE", "all")
    Duebook("books.db").run()
    Duebook("books.db").run(serve="test")
    assert begun == [Serving(("billing", "shop")), ALL, Serving(("test",))]


@pytest.mark.parametrize("serve", [[], "Prod", ["a b"], 7])
def test_names_that_no_namespace_has_are_refused(begun: list[Serving], serve: Any) -> None:
    with pytest.raises(Invalid, match="serve"):
        Duebook("books.db").run(serve=serve)
    assert begun == []


@pytest.mark.parametrize(
    ("words", "environ", "served"),
    [
        ("up", {}, ALL),
        ("--namespace staging up", {}, Serving(("staging",))),
        ("--namespace default up", {}, Serving(("default",))),
        ("up", {"DUEBOOK_NAMESPACE": "staging"}, Serving(("staging",))),
        ("up --serve a,b", {}, Serving(("a", "b"))),
        ("--namespace staging up --serve *", {}, ALL),
        ("up", {"DUEBOOK_SERVE": "a"}, Serving(("a",))),
        ("up --app served_program:book", {}, Serving(("shop",))),
        ("--namespace staging up --app served_program:book", {}, Serving(("staging",))),
        ("up --app served_program:book --serve all", {}, ALL),
        ("worker served_program:book", {}, Serving(("shop",))),
        ("worker served_program:book --serve shop,test", {}, Serving(("shop", "test"))),
    ],
)
def test_what_a_command_line_serves(
    begun: list[Serving],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    environ: dict[str, str],
    served: Serving,
) -> None:
    (tmp_path / "served_program.py").write_text(PROGRAM)
    monkeypatch.delitem(sys.modules, "served_program", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    asked = words.split()
    if "up" in asked:
        asked += ["--roles", "worker"]
    result = CliRunner().invoke(main, ["--database", str(tmp_path / "books.db"), *asked])
    assert result.exit_code == 0, result.output
    assert begun == [served]


def test_a_program_says_which_variables_its_commands_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[set[str]] = []

    def serve(_: Duebook, spawner: Spawner, *__: object) -> None:
        found.append(set(spawner.setup.inherited) & {"FIRST", "SECOND", "PGPASSWORD"})

    monkeypatch.setattr(Duebook, "serve", serve)
    monkeypatch.chdir(tmp_path)
    for name in ("FIRST", "SECOND", "PGPASSWORD"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("DUEBOOK_PASS_ENV", "FIRST")
    book = Duebook("books.db")
    book.run()
    book.run(pass_env=["SECOND"])
    book.run(pass_env=[])
    assert found == [{"FIRST"}, {"SECOND"}, set()]
    with pytest.raises(Invalid, match="pass_env"):
        book.run(pass_env=["A=1"])
    with pytest.raises(Invalid, match="run_as"):
        book.run(run_as="nobody-here")
