"""Help texts and hints: groups, whole sentences, and commands known by other names elsewhere."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from duebook.cli import exit_codes, main
from duebook.cli.commands import GLOBAL, summary_of
from duebook.cli.hints import HINTS
from duebook.model.schedule import POLICIES
from tests.support.cli import Cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PHRASES = (
    r"\bis no\b",
    r"\bare none\b",
    r"\bthe books\b",
    r"\bgoes? on\b",
    r"\btakes? back\b",
    r"\bwhoever\b",
    r"\bnobody\b",
    r"\bsomebody\b",
    r"\bbegins?\b",
    r"\bunder way\b",
)
"""Phrases that the style guide replaces."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and group, by the words to type."""

    def walk(path: str, found: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield path, found
        if isinstance(found, click.Group):
            context = click.Context(found)
            for name in found.list_commands(context):
                inner = found.get_command(context, name)
                assert inner is not None
                yield from walk(f"{path} {name}", inner)

    yield from walk("duebook", main)


COMMANDS = dict(commands())


def help_of(path: str, columns: int = 80) -> str:
    result = CliRunner().invoke(
        main,
        [*path.split()[1:], "--help"],
        prog_name="duebook",
        env={"COLUMNS": str(columns)},
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_commands_are_grouped() -> None:
    text = help_of("duebook")
    headings = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    assert headings == ["Options", "Run it", "Schedules", "Runs", "Flows", "Operate"]
    assert text.index("Run it:") < text.index("  up ") < text.index("Schedules:")
    assert text.index("Operate:") < text.index("  token ")


@pytest.mark.parametrize("path", [p for p, c in COMMANDS.items() if isinstance(c, click.Group)])
def test_no_summary_is_cut_and_each_fits_on_a_line(path: str) -> None:
    text = help_of(path)
    assert "..." not in text.replace("[ARGS]...", "")
    group = COMMANDS[path]
    assert isinstance(group, click.Group)
    for name in group.list_commands(click.Context(group)):
        summary = summary_of(COMMANDS[f"{path} {name}"])
        assert re.search(rf"^  {name} +{re.escape(summary)}$", text, re.MULTILINE), summary


def test_the_options_of_a_definition_are_grouped() -> None:
    for path in ("duebook add", "duebook update", "duebook template save"):
        text = help_of(path)
        sections = (
            ("When it is due:", "--cron", "--start-at"),
            ("What it runs:", "--shell", "--payload"),
            ("Missed and overlapping due times:", "--grace", "--depends-on"),
            ("Retries and limits:", "--retry", "--timeout"),
            ("About it:", "--title", "--label"),
            ("Options:", "--json", "--help"),
        )
        places = [text.index(f"\n{heading}\n") for heading, *_ in sections]
        assert places == sorted(places)
        for (_, *options), begin, end in zip(
            sections, places, [*places[1:], len(text)], strict=True
        ):
            for option in options:
                assert f"  {option}" in text[begin:end].replace("-h, ", "  "), option


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_explained_in_plain_words(path: str) -> None:
    texts = [COMMANDS[path].help or ""]
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts}"
            texts += [parameter.help] if parameter.name not in POLICIES else []
    for phrase in PHRASES:
        assert not [text for text in texts if re.search(phrase, " ".join(text.split()))], phrase


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("list", "duebook ls"),
        ("list --json", "duebook ls --json"),
        ("delete backup", "duebook rm backup"),
        ("get backup", "duebook show backup"),
        ("kill backup", "duebook cancel backup"),
        ("create job --every 1h -- echo 'a b'", "duebook add job --every 1h -- echo 'a b'"),
        ("statuss", "duebook status"),
        ("flow list", "duebook flow ls"),
        ("token delete ci", "duebook token revoke ci"),
        ("events sink list", "duebook events sink ls"),
    ],
)
def test_a_command_that_is_called_differently_is_answered_with_the_right_one(
    typed: str, right: str
) -> None:
    result = CliRunner().invoke(main, shlex.split(typed))
    assert result.exit_code == 2
    assert f"; did you mean: {right} (" in result.stderr


def test_describe_and_next_with_a_name_answer_with_the_right_command() -> None:
    for typed, right in (("describe", "show"), ("next", "preview")):
        result = CliRunner().invoke(main, [typed, "nightly-backup"])
        assert result.exit_code == 2
        assert result.stderr == (
            'error: "nightly-backup" is not a cron expression; if it is a schedule: '
            f"duebook {right} nightly-backup\n"
        )


def test_an_argument_too_many_is_answered_with_what_is_probably_meant(cli: Cli) -> None:
    for words, hint in (
        (("next", "0", "9", "*", "*", "*"), "; put a cron expression in quotes ("),
        (("ls", "backup"), "; to see one by its name, use show instead of ls ("),
    ):
        assert hint in cli(*words).stderr
    told = cli("nodes", "all").stderr
    assert "unexpected extra argument" in told
    assert ";" not in told


def test_every_hint_leads_to_a_command() -> None:
    for path, hints in HINTS.items():
        for word, right in hints.items():
            assert f"{path} {word}" not in COMMANDS, word
            assert right.startswith("--") or f"{path} {right}" in COMMANDS, right


def test_a_word_that_means_nothing_gets_no_hint() -> None:
    result = CliRunner().invoke(main, ["xyzzy"], prog_name="duebook")
    assert result.stderr == 'error: there is no command "xyzzy" (try: duebook --help)\n'


def test_global_options_may_stand_before_and_after_every_command(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--namespace", "shop", "--", "true")
    after = Cli(cli.path, "--json")
    names = [
        [each["name"] for each in after.json(*words)]
        for words in (
            ("ls", "--namespace", "shop", "--database", str(cli.path)),
            ("--namespace", "shop", "ls", "--database", str(cli.path)),
            ("--database", str(cli.path), "--namespace", "other", "ls", "--namespace", "shop"),
        )
    ]
    assert names == [["job"]] * 3
    assert cli.json("ls") == []
    cli.ok("template", "--namespace", "shop", "save", "nightly", "--cron", "@daily")
    assert "nightly" in cli.ok("template", "ls", "--namespace", "shop")


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_takes_the_global_options(path: str) -> None:
    found = COMMANDS[path]
    taken = {name for param in found.get_params(click.Context(found)) for name in param.opts}
    assert {option.opts[0] for option in GLOBAL} <= taken


def test_json_may_stand_before_the_command(cli: Cli) -> None:
    assert cli.ok("--json", "ls").strip() == "[]"
    result = cli("--json", "db", "migrate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "db migrate does not print JSON" in result.stderr


def test_a_token_has_namespaces_of_its_own(cli: Cli) -> None:
    cli.ok("token", "create", "ci", "--role", "viewer", "--namespace", "a", "--namespace", "b")
    assert cli.json("token", "ls")[0]["namespaces"] == ["a", "b"]


def test_retry_and_retries_are_explained_side_by_side() -> None:
    for path in ("add", "update", "template save", "retry", "flow retry"):
        text = " ".join(help_of(f"duebook {path}").split())
        assert "--retry 3" in text, path
        assert "retries: 3 runs a step at most 4 times" in text, path
        assert re.search(r"at most 3 times", text), path


def test_a_wrong_number_of_attempts_is_answered_with_what_it_counts(cli: Cli) -> None:
    result = cli("add", "job", "--every", "1h", "--retry", "0", "--", "true")
    assert result.exit_code == 2
    assert "it counts the first attempt, unlike retries in a flow file" in result.stderr
    result = cli("add", "job", "--every", "1h", "--retry-delay", "5s", "--", "true")
    assert "give --retry N as well, the number of attempts counting the first" in result.stderr


def test_retries_on_the_wrong_side_are_answered_with_what_each_counts(
    cli: Cli, tmp_path: Path
) -> None:
    result = cli("add", "job", "--every", "1h", "--retries", "3", "--", "true")
    assert result.exit_code == 2
    assert "for 3 retries, as retries: 3 in a flow file, use --retry 4" in result.stderr
    file = tmp_path / "etl.yaml"
    for wrong in ("retry: 3", "retries: many", "retry_policy: {limit: -1}"):
        file.write_text(f"steps: [{{name: a, command: b, {wrong}}}]\n")
        result = cli("flow", "check", str(file))
        assert result.exit_code == 2
        assert (
            "retries: 3 runs a step at most 4 times; --retry 3 of duebook add runs at most 3 times"
            in result.stdout
        )
    file.write_text("steps: [{name: a, command: b, tmieout_sec: 3}]\n")
    assert "at most 4 times" not in cli("flow", "check", str(file)).stdout


def test_the_help_lists_every_exit_code() -> None:
    told = re.findall(r"^  +(\d+)  +\w", help_of("duebook"), re.MULTILINE)
    assert told == [str(code) for code in exit_codes.MEANINGS]
    ends = {value for value in vars(exit_codes).values() if isinstance(value, int)}
    assert {0, *ends} == set(exit_codes.MEANINGS)
