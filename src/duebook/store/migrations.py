"""Numbered SQL files, each applied once and recorded with its checksum; knows no database."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from duebook.errors import Conflict
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Migration", "check_applied", "find_migrations", "min_compatible", "too_new"]

_BODY: Final = re.compile(r"CREATE TRIGGER\b.*\bBEGIN\b", re.DOTALL)
_FILE: Final = re.compile(r"(\d{4})_(\w+)\.sql")
_LEAST: Final = re.compile(r"^-- min_compatible: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def min_compatible(self) -> int:
        """The oldest Duebook, by the newest migration it knows, that may keep running on this
        schema: N of its line `-- min_compatible: N`, else only versions that know this
        migration."""
        match = _LEAST.search(self.sql)
        return int(match[1]) if match else self.number

    @property
    def statements(self) -> list[str]:
        """Its statements; only bodies of functions and triggers have semicolons inside."""
        lines = self.sql.splitlines()
        code = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
        found, held = [], ""
        for part in code.split(";"):
            held += part
            if _is_open(held):
                held += ";"
                continue
            found.append(held.strip())
            held = ""
        return [statement for statement in found if statement]


def _is_open(statement: str) -> bool:
    """Whether it continues after a semicolon."""
    if statement.count("$$") % 2:
        return True
    return _BODY.match(statement.lstrip()) is not None and not statement.rstrip().endswith("END")


def find_migrations(folder: Path) -> list[Migration]:
    """The migrations of a folder, in order."""
    return [
        Migration(int(match[1]), match[2], path.read_text("utf-8"))
        for path in sorted(folder.glob("*.sql"))
        if (match := _FILE.fullmatch(path.name))
    ]


def min_compatible(ours: Sequence[Migration]) -> int:
    """The oldest Duebook that may use a schema with all of these migrations."""
    return max(migration.min_compatible for migration in ours)


def check_applied(have: Mapping[int, str], ours: Sequence[Migration]) -> None:
    """Raises Conflict when an applied migration differs from ours of the same number."""
    for migration in ours:
        if have.get(migration.number, migration.checksum) != migration.checksum:
            raise Conflict(
                f"migration {migration.number:04d}_{migration.name} of the database differs from "
                "that of this version; use the version that created it. Databases of versions "
                "before 0.1 are not migrated: print their schedules with `duebook ls --json` of "
                "that version, and add them to a new database with `duebook add --file`"
            )


def too_new(schema: int, ours: int) -> Conflict:
    return Conflict(
        f"the database has schema {schema}, but this version supports only {ours}; upgrade Duebook"
    )
