"""`run` in a step is a command, and `action: dag.run` calls a flow, as in Dagu 2."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from duebook.flows.build import build
from duebook.flows.check import check_files
from duebook.flows.reconcile import notes_about
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
    found = notes_about([flow], {"main", "part"})
    told = f'step "s" of flow main runs the command {written}; to run the flow of that name, write'
    assert found == ([f"{told} `call: part`"] if is_misread else [])
    assert notes_about([flow], {"main"}) == []


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


@pytest.mark.parametrize("written", ["part", "part.yaml"])
def test_run_with_the_name_of_a_flow_of_the_same_file_calls_it_and_a_note_says_so(
    written: str,
) -> None:
    text = f"name: main\nsteps: [{{run: {written}, params: A=1}}]\n---\n"
    built = build(text + "name: part\nparams: {A: 0}\nsteps: [a]\n", "f.yaml", "f")
    assert built.problems == ()
    assert built.flows[0].steps[0].target == FlowTarget("main.part", (("A", "1"),))
    (told,) = built.flows[0].notes
    assert told.startswith("line 2: `run: part` calls the flow part of this file, as in Dagu 1")
    assert built.flows[1].notes == ()


def test_run_with_parallel_calls_a_flow_also_in_a_handler_and_nested_steps() -> None:
    flow = flow_of(
        "steps:\n  - - {run: load, parallel: [a, b]}\n    - {run: ls}\n"
        "handler_on: {exit: {run: clean, parallel: [c]}}\n"
    )
    found = [step.target for step in flow.all_steps()]
    assert (found[0], found[2]) == (FlowTarget("load"), FlowTarget("clean"))
    assert isinstance(found[1], Script)
    assert problems_of_run("{run: ls -l, parallel: [a]}")


def problems_of_run(step: str) -> list[str]:
    return [str(told) for told in build(f"steps: [{step}]", "f.yaml", "f").problems]


@pytest.mark.parametrize(
    "given", ['"ITEM=${ITEM} B=1"', "{ITEM: '${ITEM}', B: 1}", "[ITEM: x, B: 2]"]
)
def test_a_flow_without_params_has_those_that_its_file_gives_it_by_name(given: str) -> None:
    text = f"name: main\nsteps: [{{call: part, parallel: [x, y], params: {given}}}]\n---\n"
    built = build(text + "name: part\nsteps: ['echo ${ITEM} $B']\n", "f.yaml", "f")
    assert [str(told) for told in built.problems] == []
    assert [(param.name, param.default) for param in built.flows[1].params] == [
        ("ITEM", ""),
        ("B", ""),
    ]


def test_a_flow_that_declares_params_has_no_others() -> None:
    text = "name: main\nsteps: [{call: part, params: {A: 1, B: 2}}]\n---\n"
    built = build(text + "name: part\nparams: {A: 0}\nsteps: [a]\n", "f.yaml", "f")
    assert [param.name for flow in built.flows for param in flow.params] == ["A"]
