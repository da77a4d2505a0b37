"""What a SQLite file reports to doctor: sizes, the disk it is on, its last backup."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duebook.model.checkup import FileFacts
from duebook.store.sql.checkups import Checkups

if TYPE_CHECKING:
    from duebook.store.sqlite.statements import SqliteStatements

__all__ = ["SqliteCheckups"]


class SqliteCheckups(Checkups):
    """The file is that of the connection."""

    _db: SqliteStatements

    def database(self) -> FileFacts:
        file = self._pragma("database_list", 2)
        if not file:
            size = self._pragma("page_count") * self._pragma("page_size")
            return FileFacts("", size, 0, 0, 0, 0, None, None)
        path = Path(file)
        disk = shutil.disk_usage(path.parent)
        return FileFacts(
            str(path),
            _size(path),
            _size(path.with_name(f"{path.name}-wal")),
            self._pragma("freelist_count") * self._pragma("page_size"),
            disk.free,
            disk.total,
            self._db.time(self._db.value("get_creation")),
            self.last_backup(),
        )

    def _pragma(self, name: str, column: int = 0) -> Any:
        return self._db.connection.execute(f"PRAGMA {name}").fetchall()[0][column]


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
