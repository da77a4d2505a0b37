"""Migrations that databases in use have: nobody edits them, and both databases have the same."""

from __future__ import annotations

from typing import Final

import pytest

from duebook.store.migrations import Migration, min_compatible
from duebook.store.postgres import migrate as postgres
from duebook.store.sqlite import migrate as sqlite

MIGRATIONS: Final = {"sqlite": sqlite.available(), "postgres": postgres.available()}
FROZEN: Final = {
    ("sqlite", 1): "7b7d6c0cfa6a831c24f33a32ae12c6eea1e5642b1b3837b067401fa95b0a07ad",
    ("postgres", 1): "f10888b1558a4eaf5c453533ba34c28ec33248ac0b88ee2e42941bd130b149f7",
}
"""The checksums of released files. A change is a new file: CONTRIBUTING.md, "Change the tables"."""


@pytest.mark.parametrize(("database", "number"), FROZEN)
def test_a_released_migration_is_not_edited(database: str, number: int) -> None:
    migration = next(one for one in MIGRATIONS[database] if one.number == number)
    assert migration.checksum == FROZEN[database, number], "write a new migration instead"


def test_both_databases_have_the_same_migrations() -> None:
    names = [[(one.number, one.name) for one in found] for found in MIGRATIONS.values()]
    assert names[0] == names[1]


@pytest.mark.parametrize("database", MIGRATIONS)
def test_a_later_migration_says_which_nodes_may_go_on(database: str) -> None:
    silent = [
        one.name
        for one in MIGRATIONS[database]
        if one.number > 1 and "\n-- min_compatible: " not in f"\n{one.sql}"
    ]
    assert silent == []
    assert all(1 <= one.min_compatible <= one.number for one in MIGRATIONS[database])


def test_the_strictest_migration_decides_which_nodes_may_go_on() -> None:
    first = Migration(1, "init", "CREATE TABLE a (b integer);")
    mild = Migration(2, "mild", "-- min_compatible: 1\nCREATE TABLE c (d integer);")
    strict = Migration(3, "strict", "-- min_compatible: 3\nDROP TABLE a;")
    later = Migration(4, "later", "-- Notes.\n-- min_compatible: 2\nCREATE TABLE e (f integer);")
    assert min_compatible([first]) == 1
    assert min_compatible([first, mild]) == 1
    assert min_compatible([first, mild, strict, later]) == 3


def test_a_migration_that_says_nothing_is_for_nodes_that_know_it() -> None:
    first = Migration(1, "init", "CREATE TABLE a (b integer);")
    assert min_compatible([first, Migration(2, "silent", "DROP TABLE a;")]) == 2
