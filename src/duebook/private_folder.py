"""Rejects a `.duebook` that others can change: its contents decide who has access and what runs."""

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
    """Raises Invalid for a directory that is writable by its group or by everyone, or that belongs
    to a user other than this one and root. A directory that does not exist yet is accepted.

    Root may use any user's directory: in a container a volume often belongs to another user.
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
    """Raises Invalid unless a file, or its directory, is inaccessible to all other users, including
    `user`, as whom commands run."""
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
