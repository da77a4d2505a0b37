"""Which program a command starts is fixed: no value stands where a command line says what runs."""

from __future__ import annotations

import time
import timeit

import pytest

from duebook.errors import Invalid
from duebook.targets.programs import steers
from duebook.targets.shell_words import refuse_shell_text
from duebook.targets.templates import check_templates
from tests.attack import walls
from tests.support.targets import spec_of
from tests.support.waiting import takes_less_than


@pytest.mark.parametrize("text", walls.TEXTS)
def test_text_for_a_shell_in_which_a_value_chooses_what_runs_is_refused(text: str) -> None:
    assert walls.is_refused(text)


@pytest.mark.parametrize("text", walls.HARMLESS_TEXTS)
def test_text_for_a_shell_in_which_values_are_data_is_taken(text: str) -> None:
    refuse_shell_text(text, lambda name: name == "X")


def test_mixtures_of_such_texts_and_garbage_are_read_to_their_end() -> None:
    counts = walls.run(300)
    assert counts["refused"] + counts["taken"] == counts["garbage"] == 300


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 30000,
        "`" * 50000,
        "${A" * 30000,
        "a=(" * 30000,
        "<<A " * 20000 + "\n" * 20000,
        "[[ a " + "&& " * 30000,
        "case a in " * 9000,
        'echo "$X" |' * 9000,
        '"$(echo "' * 9000,
        "[[ $X == a " + "&& a " * 20000,
        "$((" * 30000 + "X",
        "((a) " * 20000 + "$X",
        "$[X" * 30000,
        "$[a " * 30000 + "$X",
        "$'a " * 30000 + "$X",
        "find -exec " * 9000 + "$X",
        "find . " + "-exec a " * 9000 + "$X",
        "kubectl -- " * 9000 + "$X",
        "xargs " * 15000 + "echo $X",
        "xargs " + "-I{} " * 15000 + "echo $X",
        "sudo " + "--a " * 20000 + "; echo $X",
        "runuser " * 10000 + "-u; echo $X",
        "perl " + "-e a " * 20000 + "; echo $X",
        "echo " + "sh -x " * 15000 + "$X",
        "a=$b;" * 9000 + "b=$X",
    ],
)
def test_text_made_to_take_long_does_not(text: str) -> None:
    def read() -> None:
        try:
            refuse_shell_text(text, lambda name: name == "X")
        except Invalid:
            return

    assert takes_less_than(3, read)


def test_a_test_twice_as_long_takes_twice_as_long_to_read() -> None:
    def seconds(size: int) -> float:
        text = "[[ $X == a " + "&& a " * (size // 5) + "]]"
        times = (
            timeit.timeit(
                lambda: refuse_shell_text(text, lambda name: name == "X"),
                timer=time.thread_time,
                number=1,
            )
            for _ in range(3)
        )
        return min(times)

    half, whole = seconds(50_000), seconds(100_000)
    assert whole < 1
    assert whole < 3 * half


@pytest.mark.parametrize(
    "target",
    [
        {"command": ["env", "{{ payload.x }}"]},
        {"command": ["env", "PATH={{ payload.x }}", "run"]},
        {"command": ["sh", "-c", "echo {{ payload.x }}"]},
        {"command": ["sh", "-c", "$DUEBOOK_PAYLOAD_X"]},
        {"command": ["sh", "-c", '"$@"', "sh", "{{ payload.x }}"]},
        {"command": ["/usr/bin/python3.12", "-m", "{{ payload.x }}"]},
        {"command": ["python3", "{{ payload.x }}"]},
        {"command": ["sudo", "-u", "app", "timeout", "5", "{{ payload.x }}"]},
        {"command": ["sudo", "--user", "a", "{{ payload.x }}"]},
        {"command": ["docker", "run", "img", "sh", "-c", "{{ payload.x }}"]},
        {"command": ["find", ".", "-exec", "{{ payload.x }}", ";"]},
        {"command": ["awk", "{{ payload.x }}"]},
        {"shell": "$DUEBOOK_PAYLOAD_X"},
        {"shell": 'cd "$DUEBOOK_PAYLOAD_X" && ./run.sh'},
        {"shell": 'echo "$DUEBOOK_PAYLOAD" | sh'},
    ],
    ids=str,
)
def test_a_payload_does_not_choose_what_a_command_runs(target: dict[str, object]) -> None:
    assert (
        "lets" in (told := check_templates(spec_of(target))["target"])
        or "would execute" in told
        or ("chooses" in told)
    )


@pytest.mark.parametrize(
    "target",
    [
        {"command": ["./run", "{{ payload.x }}"]},
        {"command": ["timeout", "5", "./run", "{{ payload.x }}"]},
        {"command": ["env", "DAY={{ payload.x }}", "./run"]},
        {"command": ["sh", "-c", 'echo "$1"', "sh", "{{ payload.x }}"]},
        {"shell": './run "$DUEBOOK_PAYLOAD_X" > $DUEBOOK_SCHEDULE.log'},
    ],
    ids=str,
)
def test_a_payload_may_be_an_argument(target: dict[str, object]) -> None:
    assert check_templates(spec_of(target)) == {}


@pytest.mark.parametrize("text", ["perl -ne 'print' \"$X\"", "ruby -e 'puts 1' \"$X\""])
def test_a_value_behind_the_text_of_an_interpreter_needs_two_dashes(text: str) -> None:
    with pytest.raises(Invalid, match=r"could become an option.*put -- before it"):
        refuse_shell_text(text, lambda name: name == "X")


def test_a_number_that_bash_would_compute_is_refused_with_what_to_write() -> None:
    with pytest.raises(Invalid, match=r'compare numbers with \[ "\$X" -gt 3 \]'):
        refuse_shell_text("[[ $X -gt 3 ]]", lambda name: name == "X")


def test_names_that_steer_programs_are_known() -> None:
    named = "PATH HOME IFS BASH_ENV LD_PRELOAD PYTHONPATH PERL5OPT RUBYOPT NODE_OPTIONS"
    named += " JAVA_TOOL_OPTIONS CLASSPATH GIT_SSH_COMMAND PAGER MANPAGER EDITOR KUBECONFIG PSQLRC"
    assert all(map(steers, named.split()))
    harmless = "DAY STAGE USER TZ LANG PATHS HOMES http_proxy A_PATH"
    harmless += " ENV NODE_ENV GIT_BRANCH PYTHON_VERSION"
    assert not any(map(steers, harmless.split()))
