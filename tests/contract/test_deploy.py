"""The files in deploy/ match this version of Duebook: its commands, settings and metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from duebook.cli import main
from duebook.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
REFERENCE = (ROOT / "docs/reference/metrics.md").read_text()
METRICS = frozenset(re.findall(r"^\| `(duebook_\w+)`", REFERENCE, re.MULTILINE))
UNIT = DEPLOY / "systemd/duebook.service"
MANIFESTS = [*yaml.safe_load_all((DEPLOY / "kubernetes/duebook.yaml").read_text())]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["duebook"]
(DEPLOYMENT,) = (each for each in MANIFESTS if each["kind"] == "Deployment")
POD: dict[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def commands() -> Iterator[list[str]]:
    yield json.loads(
        re.findall(r"^CMD (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[-1]
    )
    yield COMPOSE["command"]
    yield CONTAINER["args"]
    started = re.search(r"^ExecStart=\S+/duebook (.+)$", UNIT.read_text(), re.MULTILINE)
    assert started
    yield started[1].split()


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_what_they_start_is_a_command_with_its_options(words: list[str]) -> None:
    with main.make_context("duebook", words[:]) as context:
        name, found, rest = main.resolve_command(context, words[:])
        assert found is not None
        found.make_context(name, rest, parent=context, resilient_parsing=False)


def test_variables_are_settings() -> None:
    named = set(re.findall(r"DUEBOOK_\w+", "".join(p.read_text() for p in texts())))
    known = {f"DUEBOOK_{name.upper()}" for name in Settings.__dataclass_fields__}
    assert named
    assert named <= known


def texts() -> list[Path]:
    return [path for path in DEPLOY.rglob("*") if path.is_file()]


@pytest.mark.parametrize("file", ["grafana/duebook.json", "prometheus/duebook-rules.yml"])
def test_metrics_exist(file: str) -> None:
    named = set(re.findall(r"duebook_\w+", (DEPLOY / file).read_text()))
    assert named
    assert {re.sub(r"_bucket$", "", name) for name in named} <= METRICS


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    board = json.loads((DEPLOY / "grafana/duebook.json").read_text())
    taken = set[tuple[int, int]]()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["targets"][0]["expr"]


def test_a_node_has_the_time_to_stop_that_it_asks_for() -> None:
    for words, given in (
        (COMPOSE["command"], int(COMPOSE["stop_grace_period"].removesuffix("s"))),
        (CONTAINER["args"], POD["terminationGracePeriodSeconds"]),
    ):
        assert words[words.index("--stop-within") + 1] == "5m"
        assert given >= 300 + 20
    assert "TimeoutStopSec=330" in UNIT.read_text()


def test_pods_and_containers_may_do_no_more_than_they_need() -> None:
    assert COMPOSE["read_only"] is True
    assert COMPOSE["ports"] == ["127.0.0.1:7420:7420"]
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert f"USER {POD['securityContext']['runAsUser']}" in (DEPLOY / "Dockerfile").read_text()


def test_selectors_select_the_pods() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    by_kind = {each["kind"]: each["spec"] for each in MANIFESTS if "spec" in each}
    assert by_kind["Service"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("kubernetes", "kubernetes/duebook.yaml"),
        ("systemd", "systemd/duebook.service"),
        ("metrics-and-alerts", "prometheus/duebook-rules.yml"),
    ],
)
def test_a_recipe_shows_the_file(page: str, file: str) -> None:
    assert (DEPLOY / file).read_text() in (ROOT / f"docs/how-to/{page}.md").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "duebook.service"
    text = UNIT.read_text().replace("/opt/duebook/bin/duebook", shutil.which("true") or "/bin/true")
    unit.write_text(text.replace("User=duebook\n", ""))
    done = subprocess.run(  # noqa: S603
        ["systemd-analyze", "verify", "--man=no", str(unit)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if "duebook.service" in line]
    assert (done.returncode, told) == (0, []), done.stderr
