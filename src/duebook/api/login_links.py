"""Login links: each works once within a minute, and only those who can read the local token can
create one.

The codes are files beside the token, named by their digests, so that every process with the token
can check them, but none of them stores a usable code. A code is used by deleting its file, which
succeeds only once, however many processes try.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["LINK_LASTS", "LoginLinks"]

LINK_LASTS: Final = 60
"""In seconds."""
_CODE: Final = re.compile(r"[A-Za-z0-9_-]{32}", re.ASCII)
_PREFIX: Final = "login-"
_ADDRESS: Final = "address"


class LoginLinks:
    """The links of the nodes with their local token at `path`; `token` returns its current text."""

    def __init__(
        self, path: Path, token: Callable[[], str | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = path.parent
        self._token = token
        self._clock = clock

    def new_code(self, token: str) -> str:
        """The code of a new link; raises Unavailable if it cannot be stored."""
        self._tidy()
        code = secrets.token_urlsafe(24)
        text = f"{int(self._clock()) + LINK_LASTS} {_digest(token)}"
        try:
            _write(self._file(code), text)
        except OSError as error:
            raise Unavailable(f"{self._folder} cannot be written: {error.strerror}") from error
        return code

    def use(self, code: str) -> str | None:
        """The local token for an unused, unexpired code; otherwise None.

        Replacing the token invalidates the codes of its links.
        """
        if not _CODE.fullmatch(code):
            return None
        file = self._file(code)
        try:
            expiry, _, digest = file.read_text("ascii").partition(" ")
            file.unlink()
        except (OSError, ValueError):
            return None
        token = self._token()
        if token is None or not hmac.compare_digest(digest, _digest(token)):
            return None
        return token if self._is_open(expiry) else None

    def announce(self, address: str) -> None:
        """Store the API's address for `duebook token link`; if there are several nodes, the newest
        counts.

        Raises Unavailable if it cannot be written.
        """
        try:
            _write(self._folder / _ADDRESS, f"{address}\n")
        except OSError as error:
            raise Unavailable(f"{self._folder} cannot be written: {error.strerror}") from error

    def address(self) -> str | None:
        """The API's address that a node announced last."""
        with suppress(OSError, ValueError):
            return (self._folder / _ADDRESS).read_text("ascii").strip()
        return None

    def _is_open(self, expiry: str) -> bool:
        """Neither expired, nor later than any link can expire: the clock may have been set back."""
        return expiry.isdecimal() and 0 < int(expiry) - self._clock() <= LINK_LASTS

    def _file(self, code: str) -> Path:
        return self._folder / f"{_PREFIX}{_digest(code)}"

    def _tidy(self) -> None:
        """Delete expired codes."""
        for file in self._folder.glob(f"{_PREFIX}*"):
            with suppress(OSError, ValueError):
                if not self._is_open(file.read_text("ascii").partition(" ")[0]):
                    file.unlink()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(file: Path, text: str) -> None:
    """Write atomically, because others read the directory at the same time."""
    draft = file.with_name(f".draft-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(text)
    draft.replace(file)
