"""Files that hold the outputs of steps, for as long as another step needs them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.targets.command_setup import CommandUser

__all__ = ["OutputFiles"]

PREFIX: Final = "duebook-outputs-"


class OutputFiles(Closing):
    """A directory of files that only one user can read: the user of the node, or the one that runs
    its commands. It is deleted when the step has ended."""

    def __init__(self, user: CommandUser | None = None) -> None:
        self._user = user
        self._directory: Path | None = None

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def empty(self, name: str) -> str:
        """Create a file for a command to write to; returns its name."""
        return self.write({name: ""})[name]

    def write(self, outputs: Mapping[str, Any]) -> dict[str, str]:
        """Write a file for each output; returns their names."""
        if not outputs:
            return {}
        self._directory = self._directory or self._new_directory()
        files = {}
        for name, value in outputs.items():
            file = self._directory / name
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            file.write_bytes(text.encode(errors="replace"))
            if self._user is not None:
                file.chmod(0o600)
                os.chown(file, self._user.uid, self._user.gid)
            files[name] = str(file)
        return files

    def _new_directory(self) -> Path:
        """Another user can pass through it to his files, but create nothing in it."""
        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
        if self._user is not None:
            directory.chmod(0o711)
        return directory
