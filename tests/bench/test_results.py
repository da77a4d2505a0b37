"""Figures of benchmarks are recorded once, stored without names of machines, and rendered."""

from __future__ import annotations

import getpass
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench.goals import RECORD, Goals, leave_out, show
from bench.listing import BENCHMARKS
from bench.render import IMAGES, PAGE, page

from bench import results

if TYPE_CHECKING:
    from collections.abc import Callable

BENCH = Path(results.__file__).parent


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What was recorded since."""
    place = tmp_path / "record"
    place.touch()
    monkeypatch.setenv(RECORD, str(place))
    return lambda: place.read_text("utf-8")


def test_a_figure_is_recorded_with_its_unit_spread_and_goal(recorded: Callable[[], str]) -> None:
    goals = Goals()
    goals.at_most("queries of a node, a second", 0.13, [0.3, 0.1, 0.12])
    goals.below("p99 of one claim, ms", 2, [3])
    show("  beside many", [1], unit="ms", chart="Claims")
    first, second, third = map(json.loads, recorded().splitlines())
    assert first == {
        "name": "queries of a node, a second",
        "unit": "",
        "value": 0.12,
        "low": 0.1,
        "high": 0.3,
        "rounds": 3,
        "goal": "<= 0.13",
        "holds": True,
    }
    assert (second["name"], second["unit"], second["holds"]) == ("p99 of one claim", "ms", False)
    assert (third["name"], third["chart"]) == ("p99 of one claim: beside many", "Claims")
    assert goals.exit_code == 1


def test_nothing_is_recorded_unless_a_file_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(RECORD, raising=False)
    show("a figure", [7])
    assert capsys.readouterr().out.split() == ["a", "figure", "7.00"]


def test_a_result_names_versions_and_no_machine(
    tmp_path: Path, recorded: Callable[[], str]
) -> None:
    show("a figure, ms", [7])
    leave_out("a peer", "it is not installed")
    path = results.write(tmp_path, "fire --store postgres", recorded(), 3.2, quick=True)
    assert path.name == "fire-postgres.json"
    text = path.read_text("utf-8")
    result = json.loads(text)
    assert result["size"] == "quick"
    assert [figure["name"] for figure in result["figures"]] == ["a figure"]
    assert result["left_out"] == [{"left_out": "a peer", "why": "it is not installed"}]
    assert {"duebook", "python", "postgresql"} <= result["versions"].keys()
    for secret in (platform.node(), str(Path.home()), str(tmp_path), f'"{getpass.getuser()}"'):
        assert secret not in text


def test_a_page_shows_each_figure_and_draws_those_of_a_chart(
    tmp_path: Path, recorded: Callable[[], str]
) -> None:
    show("Duebook: no-op", [17_000, 18_000, 16_000], chart="Runs per second")
    show("a <peer>: no-op", [9_000], chart="Runs per second")
    Goals().at_least("times a peer", 2, [1.9])
    results.write(tmp_path, "speeds", recorded(), 3, quick=False)
    text, charts = page(tmp_path)
    assert "| Duebook: no-op | 17,000 | 16,000 to 18,000 |  |" in text
    assert "| times a peer | 1.9 |  | >= 2 **missed** |" in text
    assert [*charts] == ["speeds-runs-per-second.svg"]
    assert "a &lt;peer&gt;" in charts["speeds-runs-per-second.svg"]
    assert "](images/benchmarks/speeds-runs-per-second.svg)" in text


def test_the_page_of_the_docs_is_what_is_stored() -> None:
    text, charts = page(results.RESULTS)
    assert PAGE.read_text("utf-8") == text, "write it again: python -m bench render"
    drawn = {path.name: path.read_text("utf-8") for path in IMAGES.glob("*.svg")}
    assert drawn == charts, "write them again: python -m bench render"


def test_only_full_sizes_are_stored() -> None:
    assert {result["size"] for result in results.read_all(results.RESULTS)} <= {"full"}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.words)
def test_a_benchmark_is_a_module_that_can_be_tried_quickly(benchmark: object) -> None:
    words = str(getattr(benchmark, "words", ""))
    source = (BENCH / f"{words.split()[0]}.py").read_text("utf-8")
    assert '"--quick"' in source
    assert " goal " not in source, "goals.py prints and records goals"
