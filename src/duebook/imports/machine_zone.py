"""Finds the time zone that this machine is set to, which cron and systemd use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from duebook.errors import Invalid
from duebook.triggers.zones import zone_name

__all__ = ["machine_zone"]

_LINK: Final = Path("/etc/localtime")
_NAME: Final = Path("/etc/timezone")
_FOLDER: Final = "zoneinfo/"


def machine_zone() -> str | None:
    """The IANA name of the zone; None if it cannot be determined."""
    link = str(_LINK.resolve()) if _LINK.is_symlink() else ""
    for text in (os.environ.get("TZ", ""), link.partition(_FOLDER)[2], _named()):
        name = text.strip().removeprefix(":")
        try:
            if name:
                return zone_name("UTC" if name in ("Etc/UTC", "Etc/UCT") else name)
        except Invalid:
            continue
    return None


def _named() -> str:
    try:
        return _NAME.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
