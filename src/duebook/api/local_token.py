"""The local token: a random secret for this machine, in a file that only its owner can read."""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from duebook.errors import DuebookError, Invalid, NotFound, Unavailable
from duebook.private_folder import FOLDER, refuse_writable
from duebook.settings import database_path, is_file

__all__ = [
    "LocalToken",
    "find_local_token",
    "keep_local_token",
    "local_token_path",
    "rotate_local_token",
]

log = logging.getLogger(__name__)

_TEXT: Final = re.compile(r"dbk_local_[A-Za-z0-9_-]{43}", re.ASCII)


def local_token_path(database_url: str) -> Path:
    """In `.duebook` beside the SQLite file; for other databases, in the working directory."""
    if not is_file(database_url):
        return Path(FOLDER) / "token"
    folder = database_path(database_url).parent
    return (folder if folder.name == FOLDER else folder / FOLDER) / "token"


def find_local_token(path: Path) -> str | None:
    """The token in a file; None if there is no file.

    Raises Invalid for a file that others can read, for a file in a directory that others can write,
    and for a file without a token; Unavailable if it cannot be read.
    """
    refuse_writable(path.parent)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077:
            raise Invalid(
                f"{path} can be read by others (mode {mode:o}); chmod 600 {path}, and replace the "
                "token, which they may have seen: duebook token rotate"
            )
        text = file.read(1000).strip()
    if not _TEXT.fullmatch(text):
        raise Invalid(f"{path} has no token; replace it: duebook token rotate")
    return text


def keep_local_token(path: Path) -> str:
    """The token in a file, which is created if necessary; it stays until it is rotated.

    Processes that start at the same time get the same token. Raises as `find_local_token`.
    """
    found = find_local_token(path)
    if found is not None:
        return found
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft, text = _draft(path)
        try:
            os.link(draft, path)  # atomic, and never replaces an existing file
        finally:
            draft.unlink()
    except FileExistsError:
        pass
    except OSError as error:
        raise Unavailable(f"{path} cannot be created: {error.strerror}") from error
    return find_local_token(path) or text


def rotate_local_token(path: Path) -> None:
    """Replace the token in a file by a new one; running nodes use it from their next request.

    Also replaces a file that others could read. Raises NotFound if there is none, Invalid for a
    directory that others can write, and Unavailable if the file cannot be written.
    """
    refuse_writable(path.parent)
    if not path.is_symlink() and not path.exists():
        raise NotFound(
            f"there is no local token at {path}; duebook up creates it. Run this command where the "
            "node was started, or with the same --database"
        )
    try:
        draft, _ = _draft(path)
        os.replace(draft, path)  # noqa: PTH105 - beside os.link above
    except OSError as error:
        raise Unavailable(f"{path} cannot be replaced: {error.strerror}") from error


def _draft(path: Path) -> tuple[Path, str]:
    """A file with a new token, in the same directory as the final one."""
    text = f"dbk_local_{secrets.token_urlsafe(32)}"
    draft = path.with_name(f".token-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(descriptor)
    return draft, text


class LocalToken:
    """The current local token in its file, so that a rotation needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, ...], str | None] = ((), None)

    def __call__(self) -> str | None:
        """None while there is no file, or the file is rejected: then no local token is valid."""
        try:
            found = self._path.lstat()
        except OSError:
            return None
        seen = (found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)
        known, text = self._known
        if seen != known:
            text = self._read()
            # `seen` was taken before reading, so a later change is read again. Threads share
            # this: a text is stored together with the file state that it belongs to.
            self._known = seen, text
        return text

    def _read(self) -> str | None:
        try:
            return find_local_token(self._path)
        except DuebookError as error:
            log.warning("the local token does not work: %s", error)
            return None
