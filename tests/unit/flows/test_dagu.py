"""Dagu's files: each documented example is built, or refused by the name of its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.flows.build import build
from duebook.flows.words import FLOW, HANDLERS, PARAM, STEP, TABLES, camel
from tests.unit.flows.dagu_examples import EXAMPLES
from tests.unit.flows.dagu_keys import FLOW_KEYS, HANDLER_KEYS, PARAM_KEYS, STEP_KEYS

if TYPE_CHECKING:
    from duebook.flows.words import Table


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_documented_example_is_built_or_refused_by_the_name_of_its_key(title: str) -> None:
    text, keys = EXAMPLES[title]
    built = build(text, "f.yaml", "f")
    assert bool(built.flows) == (not keys), [str(problem) for problem in built.problems]
    for key in keys:
        assert any(problem.key.endswith(key) for problem in built.problems), (
            key,
            [(problem.key, str(problem)) for problem in built.problems],
        )


@pytest.mark.parametrize("title", [title for title, (_, keys) in EXAMPLES.items() if not keys])
def test_an_example_means_the_same_in_both_spellings(title: str) -> None:
    text, _ = EXAMPLES[title]
    names = [name for table in TABLES for name in table.words if "_" in name]
    snake = text
    for name in names:
        snake = snake.replace(f"{camel(name)}:", f"{name}:")
    assert build(snake, "f.yaml", "f").flows == build(text, "f.yaml", "f").flows != ()


@pytest.mark.parametrize(
    ("table", "word"),
    [(table, word) for table in TABLES[:2] for word in table.words.values() if not word.supported],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("spell", [str, camel])
def test_a_key_that_is_not_supported_is_refused_by_its_name(
    table: object, word: object, spell: object
) -> None:
    key = spell(word.name)  # type: ignore[operator, attr-defined]
    step = f"\n    {key}: x" if table is TABLES[1] else ""
    root = f"{key}: x\n" if table is TABLES[0] else ""
    problems = build(f"{root}steps:\n  - command: a{step}\n", "f.yaml", "f").problems
    assert [(p.message, p.hint) for p in problems] == [
        (f"key `{key}` is not supported", word.instead)  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize(
    ("table", "keys"),
    [(FLOW, FLOW_KEYS), (STEP, STEP_KEYS), (HANDLERS, HANDLER_KEYS), (PARAM, PARAM_KEYS)],
)
def test_every_key_of_dagu_is_supported_or_refused_by_its_name(
    table: Table, keys: list[str]
) -> None:
    assert [key for key in keys if table.find(key) is None] == []
    assert [key for key in keys if table.find(camel(key)) is None] == []


@pytest.mark.parametrize(
    ("entry", "form"),
    [
        ('{kind: cron, expression: "0 2 * * *"}', {"cron": "0 2 * * *", "tz": "Asia/Tokyo"}),
        ('{expression: "0 2 * * *"}', {"cron": "0 2 * * *", "tz": "Asia/Tokyo"}),
        ("{kind: at, at: 2030-01-01T00:00:00Z}", {"at": "2030-01-01T00:00:00Z"}),
    ],
)
def test_times_that_say_their_kind_are_read(entry: str, form: dict[str, str]) -> None:
    for written in (f"[{entry}]", f"{{start: {entry}}}"):
        text = f"tz: Asia/Tokyo\nschedule: {written}\nsteps: [a]\n"
        (flow,) = build(text, "f.yaml", "f").flows
        (trigger,) = flow.start
        assert trigger.to_json().items() >= form.items()


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("env=prod team=platform", {"env": "prod", "team": "platform"}),
        ("nightly, team=data", {"nightly": "true", "team": "data"}),
        ("{env: prod, tier: 1}", {"env": "prod", "tier": "1"}),
        ("[nightly, {env: prod}]", {"nightly": "true", "env": "prod"}),
    ],
)
def test_labels_are_read_in_all_their_forms(labels: str, found: dict[str, str]) -> None:
    for key in ("labels", "tags"):
        (flow,) = build(f"{key}: {labels}\nsteps: [a]\n", "f.yaml", "f").flows
        assert dict(flow.policies.labels) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("worker_selector: local", '1:18: worker_selector "local" is not supported; leave it out'),
        (
            "params: {type: object, properties: {DAY: {type: string}}}",
            "1:24: key `properties` is not supported; list the params with their types",
        ),
        (
            "params: {schema: params.json, values: {DAY: x}}",
            "1:10: key `schema` is not supported; list the params with their types",
        ),
        (
            "resources: {cpu: 1}",
            "1:1: key `resources` is not supported; limit the resources of the worker",
        ),
        ("type: agent", '1:7: type "agent" is not supported; use chain or graph'),
    ],
)
def test_what_is_not_supported_is_never_taken_for_something_else(text: str, told: str) -> None:
    (problem,) = build(f"{text}\nsteps: [a]\n", "f.yaml", "f").problems
    assert str(problem).startswith(f"f.yaml:{told}")
