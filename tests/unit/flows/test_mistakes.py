"""What beginners get wrong: each is told with its place, what is there, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.flows.build import build
from duebook.flows.files import read
from duebook.flows.problems import Refused

if TYPE_CHECKING:
    from pathlib import Path

STEPS = "steps: [a]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'name: a\nsteps:\n  - command: "b\n  - c\n',
            (
                "3:14: invalid YAML: a quoted string starts here and is not closed; "
                "add the closing quote"
            ),
        ),
        (
            "name: a\nsteps: [a, b\n",
            (
                "2:8: invalid YAML: a list in brackets starts here and is not closed; "
                "add the `]`, or a `,`"
            ),
        ),
        (
            "steps: {a: {command: b}\n",
            (
                "1:8: invalid YAML: a mapping in braces starts here and is not closed; "
                "add the `}`, or a `,`"
            ),
        ),
        (
            "steps:\n  - depends: [a,\n\n",
            (
                "2:16: invalid YAML: a list in brackets or a mapping in braces is not closed; "
                "add the `]` or `}`"
            ),
        ),
        (
            "description: loads: all\n" + STEPS,
            "1:19: invalid YAML: an unquoted string contains `: `; put the string in quotes",
        ),
        (
            "name:etl\n\n" + STEPS,
            "1:6: invalid YAML: `name:etl` has no space after its colon; add one",
        ),
        (
            "steps:\n  - name: a\n   command: b\n",
            (
                "3:4: invalid YAML: the indentation does not match any line above; "
                "indent the keys of a mapping, or the dashes of a list, to the same column"
            ),
        ),
        (
            "steps:\n\t- a\n",
            "2:1: invalid YAML: the line is indented with a tab; indent with spaces",
        ),
        (
            "steps:\n  - command: @a\n",
            "2:14: invalid YAML: an unquoted string cannot start with @; put the string in quotes",
        ),
        (
            'steps: ["C:\\Users"]\n',
            "1:14: invalid YAML: `\\` has a special meaning in double quotes; use single quotes",
        ),
        ("name: a\x07\n" + STEPS, "1:8: invalid YAML: character U+0007 is not allowed; delete it"),
        (
            "steps:\n  - {command: a, command: b}\n",
            "2:18: key `command` appears twice, first on line 2; keep one of them",
        ),
        (
            "steps:\n  - {comand: a}\n",
            "2:6: unknown key `comand`; did you mean `command`?",
        ),
        (
            "retires: 3\n" + STEPS,
            "1:1: unknown key `retires`; did you mean `retries`, a key of a step?",
        ),
        ("foo: 3\n" + STEPS, "1:1: unknown key `foo`; docs/dagu.md lists all keys"),
        (
            "steps: [{command: a, retry_policy: {limit: 1, foo: 2}}]",
            (
                "1:47: unknown key `foo`; use one of limit, interval_sec, backoff, "
                "max_interval_sec, exit_code, exit_codes"
            ),
        ),
        (
            "max_active_steps: many\n" + STEPS,
            '1:19: max_active_steps "many" is not a whole number from 1 to 10,000',
        ),
        (
            "steps: [{command: a, retry_policy: 3}]",
            "1:36: retry_policy is not a mapping, but 3; write `limit:` below it",
        ),
        (
            "steps: hello",
            (
                '1:8: steps "hello" is not a list or a mapping of steps; add lines such as '
                "`- command` below it"
            ),
        ),
        (
            "- a\n",
            "1:1: a flow is not a mapping, but a list; write `steps:` and a list of steps",
        ),
        (
            "schedule: every day\n" + STEPS,
            (
                '1:11: expected 5 fields, or 6 with seconds first, but found 2 in "every day"; '
                'use a form such as "0 2 * * *", @daily or {every: 1h}'
            ),
        ),
        (
            'schedule: "61 * * * *"\n' + STEPS,
            '1:11: minute 61 is out of range 0-59 in "61 * * * *"',
        ),
        (
            "steps: [{name: a, command: a, depends: c}, {name: b, command: a}]",
            '1:40: "a" depends on "c", which is not a step; the steps are a, b',
        ),
        (
            "steps: [{name: a, command: a, depends: a}]",
            "1:9: steps depend on each other in a circle: a → a; remove one of these `depends`",
        ),
        (
            "steps: [{name: a, command: a}, {name: a, command: b}]",
            '1:39: two steps are named "a"; names and ids must be unique',
        ),
        (
            "params: [{name: N, type: integer, default: abc}]\n" + STEPS,
            '1:44: default "abc" is not a valid integer',
        ),
        (
            "worker_selector: 7\n" + STEPS,
            "1:18: worker_selector 7 does not have the form NAME: value or NAME=value",
        ),
        (
            "steps: [{call: No Such Flow}]",
            '1:16: call "No Such Flow" is not a flow name; write a command as `run`',
        ),
        (
            "steps: [{run: {type: shell, input: make}}]",
            "1:15: run is a mapping; write a command, or a list of commands",
        ),
        (
            "steps: [{run: ./etl, params: A=1}]",
            (
                "1:30: params has no effect without call; run is a command; to run a flow, write "
                "`call: NAME`"
            ),
        ),
        (
            "steps: [{action: s3.upload}]",
            (
                '1:18: action "s3.upload" is not supported; use run, or one of dag.run, exec, '
                "http.request, human.task, jq.filter, mail.send, template.render, docker.run, noop"
            ),
        ),
        (
            "steps: [{action: dag.run}]",
            "1:18: action dag.run does not name a flow; add `with: {dag: NAME}`",
        ),
        (
            "handler_on: {failed: a}\n" + STEPS,
            "1:14: unknown key `failed`; did you mean `failure`?",
        ),
        (
            "handler_on: ./tell\n" + STEPS,
            "1:13: handler_on is not a mapping, but ./tell; write `init:` below it",
        ),
        (
            "steps:\n  - &a {command: a}\n  - <<: *a\n",
            "3:5: merge keys (`<<`) are not supported in YAML 1.2; write the keys out",
        ),
        ("steps: [*a]", "1:9: alias *a refers to nothing before it"),
        (
            "steps: [!!python/object:os.system a]",
            "1:9: tag tag:yaml.org,2002:python/object:os.system is not allowed; leave it out",
        ),
        ("# nothing\n", "1:1: it is empty; write `steps:` and a list of steps"),
        ("name: a\nsteps:\n", "2:1: it has no steps; add `steps: [./work.sh]`"),
        (STEPS + "---\n" + STEPS, "3:1: every flow after the first needs a name; add `name: part`"),
        (STEPS + "---\n---\nname: a\nsteps: [a]\n", "3:1: nothing follows this `---`; delete it"),
        (
            "name: my nice flow\n" + STEPS,
            (
                '1:7: invalid name "my nice flow": use 1 to 128 characters of a-z, 0-9, ".", "_" '
                'and "-", starting with a letter or digit, and not an id; '
                "write it as my-nice-flow"
            ),
        ),
        (
            "steps: [{http: {method: GET}}]",
            "1:16: http has no url; add `url: https://example.com`",
        ),
        (
            "steps: [{command: a, preconditions: [{condition: $A, expected: 're:(('}]}]",
            (
                '1:64: pattern "re:((" cannot be read: missing ), unterminated subpattern at '
                "position 1"
            ),
        ),
    ],
)
def test_a_mistake_is_told_once_with_its_place_and_what_to_do(text: str, told: str) -> None:
    assert [str(problem) for problem in build(text, "f.yaml", "f").problems] == [f"f.yaml:{told}"]


def test_a_file_whose_name_is_none_for_a_flow_says_what_to_add() -> None:
    (problem,) = build(STEPS, "My Flow.yaml", "My Flow").problems
    assert problem.hint == "add `name: my-flow`"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("näme: é\n".encode("latin-1"), "1:2: byte 0xe4 is not valid UTF-8; save it as UTF-8"),
        ("é: a\nb: é\n".encode() + b"\xe9", "3:1: byte 0xe9 is not valid UTF-8; save it as UTF-8"),
        (STEPS.encode("utf-16"), "1:1: it is UTF-16; save it as UTF-8"),
        (
            b"#" * 1_000_001,
            (
                " it has 1,000,001 bytes; at most 1,000,000 are allowed; put long scripts in "
                "separate files"
            ),
        ),
    ],
)
def test_what_is_no_text_says_where_and_what_to_do(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    with pytest.raises(Refused) as caught:
        read(path, "f.yaml")
    assert str(caught.value) == f"f.yaml:{told}"
