"""Commands of steps start where their file says, in containers, and print to files as well."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from duebook.flows.launching import Surroundings, launched
from duebook.flows.render import Values, render_step
from duebook.model.flow import Script
from tests.unit.flows.dagu_helpers import flow_of, problems_of, rendered

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.flow import Flow

AROUND = Surroundings(directory="/flows/sub", home="/home/ann", run_id="r1")
ENGINE = '#!/bin/sh\nprintf "%s\\n" "$*" >> "$ENGINE_LOG"\ncase $1 in inspect) exit 1;; esac\n'


def start(flow: Flow, tmp_path: Path, step: int = 0, engine: str = "docker") -> list[str]:
    """Starts a step with a stand-in engine; the calls that this got."""
    made = rendered(flow, step)
    around = Surroundings(str(tmp_path), "/home/ann", "r1", sys.executable)
    names = [*flow.steps, *(handler for _, handler in flow.handlers)]
    target = launched(names[step].name, made, around)
    bin_dir, log = tmp_path / "bin", tmp_path / "log"
    bin_dir.mkdir(exist_ok=True)
    log.write_text("")
    if engine:
        (bin_dir / engine).write_text(ENGINE)
        (bin_dir / engine).chmod(0o755)
    env = dict(made.variables) | {"PATH": f"{bin_dir}:/usr/bin:/bin", "ENGINE_LOG": str(log)}
    subprocess.run(target.argv, env=env, cwd=tmp_path, check=True)  # noqa: S603
    return log.read_text().splitlines()


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_step_runs_in_a_container_of_its_own(tmp_path: Path, engine: str) -> None:
    flow = flow_of(
        "env: [TAG: '18']\nsteps:\n  - run: npm run 'a b'\n    env: [MODE: fast]\n    container:\n"
        "      {image: 'node:${TAG}', volumes: ['./src:/app:ro', 'v:/v', '~/x:/x'], user: '1000',\n"
        "       working_dir: /app, env: [A=1], pull_policy: always, ports: ['80:80'],\n"
        "       network: host, platform: linux/amd64}\n"
    )
    (call,) = start(flow, tmp_path, engine=engine)
    assert call == (
        "run --rm --pull=always --platform linux/amd64 --network host --publish 80:80 "
        f"--volume {tmp_path}/src:/app:ro --volume v:/v --volume /home/ann/x:/x "
        "--user 1000 --workdir /app --env TAG --env DAG_NAME --env DAG_RUN_STEP_NAME "
        "--env DAG_RUN_ID --env MODE --env A node:18 npm run a b"
    )


@pytest.mark.parametrize(
    "step",
    [
        "{run: php x, container: app}",
        "{run: php x, container: {exec: app}}",
        "{type: docker, config: {containerName: app}, command: php x}",
        "{action: docker.run, with: {container_name: app, command: php x}}",
    ],
)
def test_a_step_enters_a_container_that_runs(tmp_path: Path, step: str) -> None:
    (call,) = start(flow_of(f"steps:\n  - {step}\n"), tmp_path)
    assert call.startswith("exec --env DAG_NAME ")
    assert call.endswith(" app php x")


def test_all_steps_share_the_container_of_the_flow_until_the_exit_handler(tmp_path: Path) -> None:
    flow = flow_of("container: {image: 'py:3'}\nsteps:\n  - run: pip install x\n")
    calls = start(flow, tmp_path)
    assert calls[0] == "inspect duebook-r1"
    assert calls[1].startswith("run -d --name duebook-r1 --entrypoint /bin/sh py:3 -c ")
    assert calls[2].endswith(" duebook-r1 pip install x")
    made = render_step(flow, flow.handlers[0][1], Values(), {})
    target = launched("handler_on.exit", made, AROUND)
    assert "rm -f duebook-r1" in target.argv[2]
    assert "run -d" not in target.argv[2]


def test_a_container_has_no_shell_unless_it_says_so() -> None:
    text = "steps:\n  - {run: 'a && b', container: {image: x}}\n"
    assert "add `shell: [/bin/sh, -c]` to the container" in str(problems_of(text))
    (step,) = flow_of(text.replace("image: x", "image: x, shell: [/bin/sh]")).steps
    assert isinstance(step.target, Script)
    assert step.target.interpreter == ("/bin/sh", "-c")


def test_without_an_engine_the_step_says_what_is_missing() -> None:
    flow = flow_of("steps:\n  - {run: ls, container: {image: x}}\n")
    target = launched("step-1", rendered(flow), AROUND)
    ended = subprocess.run(  # noqa: S603
        target.argv, env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 127
    assert "docker and podman are not installed on this worker" in ended.stderr


@pytest.mark.parametrize(
    ("keys", "out", "err"),
    [
        ("stdout: logs/a.log", "one\n", None),
        ("stderr: b", None, "two\n"),
        ("stdout: logs/a.log, stderr: b", "one\n", "two\n"),
    ],
)
def test_what_a_step_prints_goes_to_its_files_as_well(
    keys: str, out: str | None, err: str | None, tmp_path: Path
) -> None:
    flow = flow_of(f"steps:\n  - {{run: 'echo one; echo two >&2; exit 3', {keys}}}\n")
    target = launched("step-1", rendered(flow), Surroundings(str(tmp_path)))
    for _ in range(2):
        ended = subprocess.run(  # noqa: S603
            target.argv, cwd=target.cwd, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (3, "one\n", "two\n")
    for file, text in (("logs/a.log", out), ("b", err)):
        assert (tmp_path / file).exists() == (text is not None)
        if text is not None:
            assert (tmp_path / file).read_text() == text * 2


@pytest.mark.parametrize("file", ["/srv/x", "../x", "~/x", "a/../../x"])
def test_a_file_for_output_is_below_the_working_directory(file: str) -> None:
    (problem,) = problems_of(f"steps:\n  - {{run: ls, stdout: {file}}}\n")
    assert "is not below the working directory" in problem


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (None, "/flows/sub"),
        ("data", "/flows/sub/data"),
        ("../x", "/flows/x"),
        ("~/data", "/home/ann/data"),
        ("/srv", "/srv"),
        ("$HOME/a", "/home/ann/a"),
    ],
)
def test_paths_are_relative_to_the_directory_of_the_file(written: str | None, found: str) -> None:
    key = "" if written is None else f", working_dir: {written}"
    target = launched("step-1", rendered(flow_of(f"steps: [{{run: ls{key}}}]")), AROUND)
    assert target.cwd == found
