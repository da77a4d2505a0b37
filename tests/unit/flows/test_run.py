"""`run` in a step is a command, and `action: dag.run` calls a flow, as in Dagu 2."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from duebook.flows.build import build
from duebook.flows.check import check_files
from duebook.flows.reconcile import misread_runs
from duebook.model.flow import Flow, FlowTarget, Script

if TYPE_CHECKING:
    from pathlib import Path


def flow_of(text: str) -> Flow:
    built = build(text, "f.yaml", "f")
    assert built.problems == ()
    return built.flows[0]


def ended_by(shell: tuple[str, ...], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the text is ours
        [*shell, text], capture_output=True, text=True, check=False
    )


def test_run_is_a_command_of_the_shell() -> None:
    flow = flow_of("steps: [{run: ./build.sh --all}]\nhandler_on: {exit: {run: ./clean.sh}}")
    assert [str(step.target) for step in flow.all_steps()] == ["./build.sh --all", "./clean.sh"]


def test_run_of_several_lines_is_a_script_with_its_own_interpreter() -> None:
    flow = flow_of("steps:\n  - run: |\n      #!/usr/bin/env python3\n      print(1)\n")
    target = flow.steps[0].target
    assert isinstance(target, Script)
    assert target.interpreter == ("/usr/bin/env", "python3", "-c")


def test_a_list_of_run_is_several_commands_of_which_each_has_a_shell_of_its_own() -> None:
    listed = "[cd /, 'test \"$PWD\" != /', 'false; echo hidden', echo never]"
    flow = flow_of(f"steps: [{{run: {listed}}}]")
    target = flow.steps[0].target
    assert isinstance(target, Script)
    for shell in (target.interpreter, ("/bin/sh", "-c")):
        ended = ended_by(shell, target.text)
        with_e = "-e" in shell
        assert ended.stdout == ("" if with_e else "hidden\nnever\n")
        assert ended.returncode == (1 if with_e else 0)
    assert flow.steps[0].written.startswith("cd /; test")


def test_a_list_of_run_ends_with_the_code_of_the_command_that_failed() -> None:
    target = flow_of("steps: [{run: [exit 7, echo never]}]").steps[0].target
    assert isinstance(target, Script)
    for shell in (target.interpreter, ("/bin/sh", "-c")):
        ended = ended_by(shell, target.text)
        assert (ended.returncode, ended.stdout) == (7, "")


def test_the_action_dag_run_calls_a_flow_of_the_file() -> None:
    text = "name: main\nsteps: [{action: dag.run, with: {dag: part, params: {A: 1}}}]\n---\n"
    built = build(text + "name: part\nparams: {A: 0}\nsteps: [a]\n", "f.yaml", "f")
    assert built.problems == ()
    assert built.flows[0].steps[0].target == FlowTarget("main.part", (("A", 1),))


@pytest.mark.parametrize(
    ("written", "is_misread"), [("part", True), ("part.yaml", True), ("./part", False)]
)
def test_a_run_that_is_the_name_of_a_flow_gets_a_note(written: str, is_misread: bool) -> None:
    flow = flow_of(f"name: main\nsteps: [{{name: s, run: {written}}}, {{command: part}}]")
    found = misread_runs([flow], {"main", "part"})
    told = f'step "s" of flow main runs the command {written}; to run the flow of that name, write'
    assert found == ([f"{told} `call: part`"] if is_misread else [])
    assert misread_runs([flow], {"main"}) == []


def test_a_check_of_files_has_the_note(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text("steps: [{run: part}]")
    (tmp_path / "part.yaml").write_text("steps: [a]")
    main, part = sorted(check_files([tmp_path]), key=lambda checked: checked.file)
    assert main.notes == (
        (
            'step "step-1" of flow main runs the command part; to run the flow of that name, '
            "write `call: part`"
        ),
    )
    assert not part.notes
    assert not main.problems
