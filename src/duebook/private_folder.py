"""Refuses a `.duebook` that others can change: what is in it decides who gets in and what runs."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FOLDER", "refuse_readable", "refuse_writable", "user_name"]

FOLDER: Final = ".duebook"
_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def refuse_writable(folder: Path) -> None:
    """Raises Invalid for a directory that its group or everybody can write, or that belongs to
    somebody else than this user and root. One that does not exist yet is fine.

    Root may use a directory of anybody: in a container the owner of a volume is often another.
    """
    try:
        found = folder.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unavailable(f"{folder} cannot be read: {error.strerror}") from error
    mode, user = stat.S_IMODE(found.st_mode), os.geteuid()
    if mode & _WRITE:
        raise Invalid(f"{folder} can be written by others (mode {mode:o}); chmod go-w {folder}")
    if user != 0 and found.st_uid not in (user, 0):
        raise Invalid(
            f"{folder} belongs to {user_name(found.st_uid)}, who could change its contents; use "
            "a directory that you own, or chown this one"
        )


def refuse_readable(file: Path, user: str) -> None:
    """Raises Invalid unless a file, or the directory that it is in, is closed to all others, among
    them `user`, as whom commands run."""
    mode, around = (stat.S_IMODE(path.stat().st_mode) for path in (file, file.absolute().parent))
    if mode & _OTHERS and around & _OTHERS:
        folder = file.parent if file.parent.name == FOLDER else None
        remedy = f"chmod 700 {folder}" if folder is not None else f"chmod 600 {file}*"
        raise Invalid(
            f'{file} can be read by others (mode {mode:o}), including "{user}", the user that '
            f"runs commands; {remedy}"
        )


def user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
