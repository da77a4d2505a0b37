"""Files in which commands leave a reference to their output: named for each attempt, read once.

For a command that leaves none, only the directory is created, once for each node.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.closing import Closing
from duebook.model.run import Outcome
from duebook.targets.outcomes import LONGEST_REF

if TYPE_CHECKING:
    from duebook.model.run import Claim
    from duebook.targets.command_setup import CommandUser

__all__ = ["VARIABLE", "OutputRefs"]

VARIABLE: Final = "DUEBOOK_OUTPUT"
PREFIX: Final = "duebook-refs-"
_HOW: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutputRefs(Closing):
    """A directory that only the user of the node's commands can use."""

    def __init__(self, user: CommandUser | None = None) -> None:
        self._uid = os.geteuid() if user is None else user.uid
        self._user = user
        self._making = threading.Lock()
        self._directory: str | None = None

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def path(self, claim: Claim) -> str:
        """Where this attempt may leave a reference; there is no file yet."""
        with self._making:
            if self._directory is None:
                self._directory = self._new_directory()
        return f"{self._directory}/{claim.run.id}-{claim.run.attempt}"

    def _new_directory(self) -> str:
        directory = tempfile.mkdtemp(prefix=PREFIX)
        if self._user is not None:
            os.chown(directory, self._user.uid, self._user.gid)
        return directory

    def outcome(self, outcome: Outcome, path: str) -> Outcome:
        """The outcome of an attempt, with the reference that it left; the file is deleted.

        An attempt that did not succeed has none. One that left an invalid reference fails.
        """
        try:
            data = self._read(path)
        except FileNotFoundError:  # the usual case
            return outcome
        except OSError as error:
            return _refused(outcome, f"cannot be read: {error.strerror or error}")
        if outcome.status != "succeeded":
            return outcome
        if len(data) > LONGEST_REF:
            return _refused(outcome, f"has more than {LONGEST_REF:,} bytes")
        try:
            text = data.decode().strip()
        except UnicodeDecodeError:
            return _refused(outcome, "is not UTF-8 text")
        return replace(outcome, output_ref=text or None)

    def _read(self, path: str) -> bytes:
        """A command may run as another user, and must not make the node read other files for it."""
        try:
            file = os.open(path, _HOW)
            try:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode) or found.st_uid != self._uid:
                    raise OSError("it is not a file of the command's user")
                return os.read(file, LONGEST_REF + 1)
            finally:
                os.close(file)
        finally:
            with suppress(OSError):  # there is none, or it is a directory
                Path(path).unlink()


def _refused(outcome: Outcome, why: str) -> Outcome:
    if outcome.status != "succeeded":
        return outcome
    told = f"the file named by {VARIABLE} {why}; write a short reference, such as a URL"
    return Outcome("failed", "output", told, outcome.exit_code)
