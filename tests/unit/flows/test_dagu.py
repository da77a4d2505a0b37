"""Dagu's files: each documented example is built, or refused by the name of its key."""

from __future__ import annotations

import pytest

from duebook.flows.build import build
from duebook.flows.words import TABLES, camel
from tests.unit.flows.dagu_examples import EXAMPLES


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
