"""Flow files on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ETL = """
schedule: "0 2 * * *"
tz: Europe/Brussels
params: [DAY: today]
env: {DATA: "${HOME}/data"}
steps:
  extract: {command: './extract.sh "$DAY"', output: ROWS}
  load:
    command: [./load, "${ROWS.count}", "$DATA"]
    depends: extract
    preconditions: [{condition: "$DAY", expected: "re:^20"}]
  hook: {http: {url: "https://example.com/", headers: {X-Key: secret}, json: {a: 1}}, depends: load}
  next: {call: report, params: {DAY: $DAY}, depends: load}
handler_on: {failure: ./tell.sh}
"""


@pytest.fixture
def etl(tmp_path: Path) -> Path:
    path = tmp_path / "etl.yaml"
    path.write_text(ETL)
    return path


def test_a_file_in_order_is_told_in_a_line(cli: Cli, etl: Path) -> None:
    result = cli("flow", "check", str(etl))
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert words == f"{etl}: etl, 4 steps, At 02:00 every day (Europe/Brussels)"
    assert result.stderr == "note: etl runs report, which is not in these files\n"


def test_all_problems_of_all_files_are_told_at_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("retires: 3\nsteps: [a, {command: b, depends: [c]}]")
    (tmp_path / "b.yaml").write_text("steps: [b]")
    (tmp_path / "c.yaml").write_text("name: b\nsteps: [b]")
    result = cli("flow", "check", ".")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "a.yaml:1:1: unknown key `retires`; did you mean `retries`, a key of a step?",
        "  1 | retires: 3",
        "    | ^",
        'a.yaml:2:35: "step-2" depends on "c", which is not a step; the steps are step-1, step-2',
        "  2 | steps: [a, {command: b, depends: [c]}]",
        "    |                                   ^",
        "b.yaml: b, 1 step, started manually",
        'c.yaml:1:1: flow "b" is already defined in b.yaml; rename one of them',
    ]
    assert result.stderr == "3 problems in 2 files\n"


def test_a_link_that_a_node_would_refuse_is_refused_by_the_check_of_its_directory(
    cli: Cli, tmp_path: Path
) -> None:
    outside, root = tmp_path / "outside.yaml", tmp_path / "flows"
    outside.write_text("steps: [a]")
    root.mkdir()
    (root / "a.yaml").symlink_to(outside)
    result = cli("flow", "check", str(root))
    assert result.exit_code == 2
    assert (
        result.stdout
        == f"{root}/a.yaml: it is a link to a place outside its directory; copy the file there\n"
    )


def test_a_check_as_json_has_places(cli: Cli, tmp_path: Path, etl: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("steps:\n  - {command: a, retryPolcy: 1}")
    result = cli("flow", "check", str(path), str(etl), "--json")
    assert result.exit_code == 2
    bad, good = json.loads(result.stdout)
    assert bad == {
        "file": str(path),
        "flows": [],
        "problems": [
            {
                "file": str(path),
                "line": 2,
                "column": 18,
                "key": "steps[0].retryPolcy",
                "message": "unknown key `retryPolcy`",
                "hint": "did you mean `retryPolicy`?",
                "text": "  - {command: a, retryPolcy: 1}",
            }
        ],
        "notes": [],
    }
    assert good["flows"][0]["steps"] == ["extract", "load", "hook", "next"]
    assert good["flows"][0]["schedule"]["trigger"][0]["cron"] == "0 2 * * *"


def test_a_check_tells_when_a_flow_is_stopped_and_restarted(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "service.yaml"
    path.write_text('schedule: {stop: "0 18 * * *", restart: "0 12 * * *"}\nsteps: [a]')
    told = " ".join(cli.ok("flow", "check", str(path)).split())
    assert told.endswith(
        "service, 1 step, started manually, stopped: At 18:00 every day (UTC), "
        "restarted: At 12:00 every day (UTC)"
    )
    (flow,) = cli.json("flow", "check", str(path))[0]["flows"]
    assert [flow[how][0]["cron"] for how in ("stop", "restart")] == ["0 18 * * *", "0 12 * * *"]


def test_flows_that_run_each_other_are_found_across_files(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("steps: [call: b]")
    (tmp_path / "b.yaml").write_text("steps: [call: a]")
    assert "in a circle: a → b → a" in cli("flow", "check", str(tmp_path)).stdout


def test_a_graph_is_drawn_here_or_as_svg(cli: Cli, etl: Path) -> None:
    assert cli.ok("flow", "graph", str(etl)).splitlines() == [
        '● extract  ./extract.sh "$DAY"',
        "● load  ./load '${ROWS.count}' '$DATA'",
        "├─╮",
        "● │ hook  POST https://example.com/",
        "  ● next  flow report",
        "on failure: ./tell.sh",
    ]
    assert ET.fromstring(cli.ok("flow", "graph", str(etl), "--svg")).tag.endswith("svg")  # noqa: S314


def test_a_dry_run_shows_what_would_run_and_no_secrets(cli: Cli, etl: Path) -> None:
    assert cli.ok("flow", "dry", str(etl), "--param", "DAY=2026; rm -rf /") == (
        """extract
  runs     ./extract.sh "$DAY"
  that is  ./extract.sh "2026; rm -rf /"
  env      DATA=${HOME}/data
  env      DAY=2026; rm -rf /

load  after extract
  if       2026; rm -rf / = re:^20
  runs     ./load '<output of extract>.count' '${HOME}/data'
  env      DATA=${HOME}/data
  env      DAY=2026; rm -rf /

hook  after load
  runs     POST https://example.com/
  json     {"a": 1}

next  after load
  runs     flow report
  param    DAY=2026; rm -rf /

handler_on.failure
  runs     ./tell.sh
  env      DATA=${HOME}/data
  env      DAY=2026; rm -rf /
"""
    )
    load = cli.json("flow", "dry", str(etl))[1]
    assert load["target"]["command"] == ["./load", "<output of extract>.count", "${HOME}/data"]
    assert "secret" not in cli("flow", "dry", str(etl), "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("check",), 2, "FILES"),
        (("check", "{}/gone.yaml"), 2, "the file does not exist"),
        (("graph", "{}"), 2, "is a directory; name one of its files"),
        (("graph", "{}/bad.yaml"), 2, "it has no steps"),
        (("graph", "{}/etl.yaml", "--flow", "x"), 2, 'has no flow "x"; it has etl'),
        (("dry", "{}/etl.yaml", "--param", "DAY"), 2, "is not NAME=VALUE"),
        (("dry", "{}/etl.yaml", "--param", "DAYS=1"), 2, "did you mean `DAY`?"),
    ],
)
def test_a_mistake_about_a_flow_is_one_line(
    cli: Cli, tmp_path: Path, etl: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad")
    result = cli("flow", *(argument.format(etl.parent) for argument in arguments))
    assert result.exit_code == code
    assert words in result.output


def test_a_flow_of_several_in_a_file_can_be_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "main.yaml"
    path.write_text("steps: [call: part]\n---\nname: part\nsteps: [./work.sh]")
    assert cli.ok("flow", "graph", str(path)) == "● step-1  flow main.part\n"
    assert cli.ok("flow", "graph", str(path), "--flow", "part") == "● step-1  ./work.sh\n"
