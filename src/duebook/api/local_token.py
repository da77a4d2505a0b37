"""The local token: a random secret in a file that only its owner reads, for this machine."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from duebook.errors import Invalid, Unavailable
from duebook.settings import database_path, is_postgres

__all__ = ["find_local_token", "keep_local_token", "local_token_path"]

_TEXT: Final = re.compile(r"dbk_local_[A-Za-z0-9_-]{43}", re.ASCII)
_FOLDER: Final = ".duebook"


def local_token_path(database_url: str) -> Path:
    """In `.duebook` beside the file of the books; of books elsewhere, in the working directory."""
    if is_postgres(database_url):
        return Path(_FOLDER) / "token"
    folder = database_path(database_url).parent
    return (folder if folder.name == _FOLDER else folder / _FOLDER) / "token"


def find_local_token(path: Path) -> str | None:
    """The token that a file has; None when there is no file.

    Raises Invalid for a file that others may read or that has no token, and Unavailable for one
    that cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077:
            raise Invalid(f"{path} can be read by others (mode {mode:o}); chmod 600, or delete it")
        text = file.read(1000).strip()
    if not _TEXT.fullmatch(text):
        raise Invalid(f"{path} has no token; delete it, and the next start makes one")
    return text


def keep_local_token(path: Path) -> str:
    """The token of a file, which is made when there is none; it stays the same from then on.

    Several that start at once get the same one. Raises as `find_local_token`.
    """
    found = find_local_token(path)
    if found is not None:
        return found
    text = f"dbk_local_{secrets.token_urlsafe(32)}"
    draft = path.with_name(f".token-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
            os.link(draft, path)  # whole or not at all, and never over another one
        finally:
            draft.unlink()
    except FileExistsError:
        pass
    except OSError as error:
        raise Unavailable(f"{path} cannot be made: {error.strerror}") from error
    return find_local_token(path) or text
