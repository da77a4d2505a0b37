"""The local token: a random secret in a file that only its owner reads, for this machine."""

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
    """In `.duebook` beside the file of the books; of books elsewhere, in the working directory."""
    if not is_file(database_url):
        return Path(FOLDER) / "token"
    folder = database_path(database_url).parent
    return (folder if folder.name == FOLDER else folder / FOLDER) / "token"


def find_local_token(path: Path) -> str | None:
    """The token that a file has; None when there is no file.

    Raises Invalid for a file that others can read, for one in a directory that others can write,
    and for one that has no token; Unavailable for one that cannot be read.
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
    """The token of a file, which is created when there is none; it stays until it is rotated.

    Several that start at once get the same one. Raises as `find_local_token`.
    """
    found = find_local_token(path)
    if found is not None:
        return found
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft, text = _draft(path)
        try:
            os.link(draft, path)  # whole or not at all, and never over another one
        finally:
            draft.unlink()
    except FileExistsError:
        pass
    except OSError as error:
        raise Unavailable(f"{path} cannot be created: {error.strerror}") from error
    return find_local_token(path) or text


def rotate_local_token(path: Path) -> None:
    """Replace the token of a file by another one; nodes that run notice at the next request.

    Also replaces a file that others could read. Raises NotFound when there is none, Invalid for a
    directory that others can write, and Unavailable when the file cannot be written.
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
    """A file with a new token, beside the one that it shall become."""
    text = f"dbk_local_{secrets.token_urlsafe(32)}"
    draft = path.with_name(f".token-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(descriptor)
    return draft, text


class LocalToken:
    """The local token as its file has it at present, so that a rotation needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, ...], str | None] = ((), None)

    def __call__(self) -> str | None:
        """None while there is no file, or one that is refused: then no local token opens."""
        try:
            found = self._path.lstat()
        except OSError:
            return None
        seen = (found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)
        known, text = self._known
        if seen != known:
            text = self._read()
            # `seen` is of before it was read: what changes meanwhile is read again. Many threads
            # are here: a text stands only beside the file that it was looked up for.
            self._known = seen, text
        return text

    def _read(self) -> str | None:
        try:
            return find_local_token(self._path)
        except DuebookError as error:
            log.warning("the local token does not work: %s", error)
            return None
