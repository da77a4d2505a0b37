"""Files that have the outputs of steps, for as long as another step needs them."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OutputFiles"]

PREFIX: Final = "duebook-outputs-"


class OutputFiles(Closing):
    """A directory that only this user can read; it is deleted when the step has ended."""

    def __init__(self) -> None:
        self._directory: Path | None = None

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def write(self, outputs: Mapping[str, Any]) -> dict[str, str]:
        """A file for each; its name."""
        if not outputs:
            return {}
        self._directory = self._directory or Path(tempfile.mkdtemp(prefix=PREFIX))
        files = {}
        for name, value in outputs.items():
            file = self._directory / name
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            file.write_bytes(text.encode(errors="replace"))
            files[name] = str(file)
        return files
