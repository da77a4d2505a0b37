"""Time zone data for tests: ours, except for zones that have the rules of other zones."""

from __future__ import annotations

import zipfile
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "2030.1"
NAME = f"tzdata-{VERSION}-py2.py3-none-any.whl"


def write_wheel(folder: Path, without: tuple[str, ...] = (), **rules_of: str) -> Path:
    """A wheel of `2030a` in which some zones, such as Europe__Brussels, have other rules."""
    changed = {name.replace("__", "/"): other for name, other in rules_of.items()}
    about = f"tzdata-{VERSION}.dist-info"
    path = folder / NAME
    package = files("tzdata")
    zones = (package / "zones").read_text().split()
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tzdata/__init__.py", '__version__ = "2030.1"\nIANA_VERSION = "2030a"\n')
        wheel.writestr("tzdata/zones", "\n".join(zones))
        for zone in zones:
            if zone not in without:
                data = (package / "zoneinfo" / changed.get(zone, zone)).read_bytes()
                wheel.writestr(f"tzdata/zoneinfo/{zone}", data)
        wheel.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tzdata\nVersion: {VERSION}\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return path
