"""The list of deliberate faults stays true to the source; `make mutants` runs tests against it."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from tools.mutants import ROOT, Mutant, load

MUTANTS = load()
FEWEST = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_to_the_present_source(mutant: Mutant) -> None:
    sound = (ROOT / mutant.file).read_text("utf-8")
    changed = mutant.applied(sound)
    assert changed != sound
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    for test in mutant.tests:
        assert (ROOT / test).is_file(), test
    assert mutant.only in ("", "sqlite", "postgres")


def test_there_are_enough_mutants_in_every_area() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert len(names) == len(MUTANTS) >= FEWEST
    areas = Counter(mutant.area for mutant in MUTANTS)
    assert set(areas) == {"planner", "protocol", "delivery", "flows"}
    assert min(areas.values()) >= 10


def test_a_mutant_whose_text_is_gone_is_named() -> None:
    mutant = MUTANTS[0]
    with pytest.raises(ValueError, match=mutant.name):
        mutant.applied("")
