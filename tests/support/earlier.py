"""Earlier releases, of which the wheels are kept, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

__all__ = ["WHEELS", "install"]

WHEELS: Final = sorted((Path(__file__).parents[1] / "integration" / "releases").glob("*.whl"))


def install(wheel: Path, home: Path) -> Path:
    """The `duebook` of a release, with the packages that the tests run with."""
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    words = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *words]
    subprocess.run([*pip, str(wheel)], check=True, cwd=home)  # noqa: S603
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))  # not its own .pth files
    return home / "bin" / "duebook"
