"""A text that only bash understands runs with bash, and everything else as the file says."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from duebook.flows.bash_only import BASH, SHELL, sign_of_bash
from duebook.flows.build import build
from duebook.model.flow import Script
from duebook.model.target import CommandTarget
from tests.unit.flows.dagu_helpers import flow_of, rendered

BASH_TEXTS = [
    ("if [[ $A == 1 ]]; then echo b; fi", "[["),
    ("true && [[ -f x ]]", "[["),
    ('if [ "$A" == "prod" ]; then echo b; fi', "=="),
    ("test a == b", "=="),
    ('echo -e "a\\tb"', "echo -e"),
    ("echo -ne x", "echo -ne"),
    ("for i in {1..3}; do echo $i; done", "{1..3}"),
    ("cp a.{txt,bak}", "{txt,bak}"),
    ("cat <<< hello", "<<<"),
    ("diff <(ls a) <(ls b)", "<("),
    ("./run &> out.log", "&>"),
    ("set -euo pipefail\nfalse | true", "pipefail"),
    ("set -o pipefail", "pipefail"),
    ("source venv/bin/activate", "source"),
    ("A=(1 2)", "=("),
    ('for a in "${A[@]}"; do echo $a; done', "${A[@"),
    ('echo "${NAME^^}"', "${NAME^"),
    ("echo ${NAME:0:3}", "${NAME:0"),
    ("echo ${NAME//a/b}", "${NAME/"),
    ('echo "$RANDOM"', "RANDOM"),
    ("(( i++ ))", "(("),
    ("trap 'echo no' ERR", "trap ERR"),
    ("function f { echo; }", "function"),
]
PLAIN_TEXTS = [
    "echo hi",
    "grep '[[:space:]]' a",
    "grep -E '^[[:alpha:]]+ == ' a",
    "awk '{print $1,$2}' a",
    'curl -d \'{"a":1,"b":2}\' http://x',
    'curl -d "{\\"a\\":1,\\"b\\":2}" http://x',
    "[ a = b ] && echo same",
    "echo $((1+2)) $( (ls) )",
    "echo ${A:-b} ${#A} ${A%.txt} ${A:=x} ${A:+y}",
    "echo one # [[ a ]] {1..3}",
    "ssh host '[[ -f x ]] && source y'",
    "a > b 2>&1 && c || d",
    "echo 'x == y' == z",
    'test "$A" = 1 || ./a == b',
    "cat < in > out",
    "git show HEAD@{1}",
    "find . -exec ls {} +",
    "if true; then echo source; fi",
    "./source a",
    "set -eu",
]


@pytest.mark.parametrize(("text", "sign"), BASH_TEXTS)
def test_what_only_bash_knows_is_seen(text: str, sign: str) -> None:
    assert sign_of_bash(text) == sign
    assert interpreter(text) == BASH


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_what_every_shell_knows_stays_with_the_default(text: str) -> None:
    assert sign_of_bash(text) is None


def interpreter(text: str, more: str = "") -> tuple[str, ...]:
    lines = "".join(f"      {line}\n" for line in text.split("\n"))
    built = build(f"{more}steps:\n  - run: |\n{lines}", "f.yaml", "f")
    assert built.problems == ()
    target = built.flows[0].steps[0].target
    assert isinstance(target, Script)
    return target.interpreter


def test_a_file_that_names_its_shell_gets_that() -> None:
    assert interpreter("[[ a ]]", "shell: sh\n") == ("sh", "-c")
    assert interpreter("[[ a ]]", "shell: [zsh, -e]\n") == ("zsh", "-e", "-c")
    assert interpreter("#!/bin/sh\n[[ a ]]") == ("/bin/sh", "-c")
    assert interpreter("echo hi") == SHELL


def test_a_list_of_commands_and_a_condition_get_bash_as_well() -> None:
    text = """
steps:
  - run: [echo a, '[[ a == a ]]']
  - run: echo b
    preconditions: '[[ a == a ]]'
  - run: echo c
    preconditions: '[ a = a ]'
"""
    first, second, third = flow_of(text).steps
    assert isinstance(first.target, Script)
    assert first.target.interpreter == BASH
    assert second.preconditions[0].text == "bash -c '[[ a == a ]]'"
    assert third.preconditions[0].text == "[ a = a ]"


def test_the_step_runs_with_bash_and_the_check_says_so() -> None:
    if shutil.which("bash") is None:
        pytest.skip("this machine has no bash")
    step = "{name: pick, run: '[[ $WORD == b ]] && echo yes'}"
    flow = flow_of(f"params: [WORD: b]\nsteps: [{step}]")
    made = rendered(flow)
    assert isinstance(made.target, CommandTarget)
    env = {"PATH": "/usr/bin:/bin", **dict(made.variables)}
    assert subprocess.check_output(made.target.argv, env=env) == b"yes\n"  # noqa: S603
    told = 'step "pick" of flow f runs with bash, because only bash knows `[[`; write `shell: bash`'
    assert flow.notes == (told,)


def test_a_container_keeps_the_shell_that_it_has() -> None:
    text = "container: {image: 'alpine:3'}\nsteps:\n  - run: |\n      [[ a ]]\n      echo x\n"
    target = flow_of(text).steps[0].target
    assert isinstance(target, Script)
    assert target.interpreter[0] == "/bin/sh"
