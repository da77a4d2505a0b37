"""Fetches the secrets that a node offers, for the namespaces that may have them.

Variables and files are read each time. The output of a command is cached for five minutes, only in
memory. No value of a run ever reaches a source.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, Unavailable, shorten
from duebook.model.secret_values import SHORTEST_SECRET
from duebook.targets.processes import Stop, supervise

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.serving import Serving
    from duebook.secret_sources import SecretSource, Sources
    from duebook.targets.spawner import Spawner

__all__ = ["NodeSecrets", "SecretFailed", "offered_names"]

log = logging.getLogger(__name__)

KEPT: Final = 300.0
"""Seconds for which the output of a command is cached."""
FAILURE_KEPT: Final = 5.0
"""Seconds until a failed command is tried again."""
LONGEST_COMMAND: Final = 10.0
"""Timeout of a command in seconds."""
MOST_BYTES: Final = 65_536
_OTHERS_READ: Final = stat.S_IROTH


class SecretFailed(Invalid):
    """A secret that a run needs and this node cannot provide; never contains its value."""

    code = "secret"


class _Unusable(Exception):
    """What is wrong with a source, and the remedy."""


def offered_names(sources: Sources, served: Serving) -> dict[str, list[str]]:
    """The names that a node offers to each namespace that it serves, as it announces them."""
    return {
        namespace: sorted(names)
        for namespace, names in sorted(sources.items())
        if names and namespace in served
    }


class NodeSecrets:
    """The secrets of one node; safe to use from several threads."""

    def __init__(
        self,
        sources: Sources | None = None,
        spawner: Spawner | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources or {}
        self._spawner = spawner
        self._monotonic = monotonic
        self._node = socket.gethostname()
        self._printed: dict[SecretSource, tuple[float, str | _Unusable]] = {}
        known = {source for names in self._sources.values() for source in names.values()}
        self._asking = {source: threading.Lock() for source in known}
        self._warned: set[str] = set()

    def offers_any(self, namespace: str) -> bool:
        return bool(self._sources.get(namespace))

    def get(self, namespace: str, name: str) -> str:
        """The value of a secret for a run of that namespace; raises SecretFailed, and Unavailable
        if no command can be started here."""
        source = self._sources.get(namespace, {}).get(name)
        if source is None:
            raise SecretFailed(
                f'secret "{shorten(name)}" is not available to namespace "{namespace}" on node '
                f'"{self._node}"; add it to [secrets.{namespace}] in the duebook.toml of the node, '
                "and restart it"
            )
        try:
            return _checked(self._fetch(source))
        except _Unusable as error:
            raise SecretFailed(
                f'secret "{name}" of namespace "{namespace}" cannot be read on node '
                f'"{self._node}": {error}'
            ) from None

    def _fetch(self, source: SecretSource) -> str:
        if source.kind == "env":
            return _from_environment(source.place[0])
        if source.kind == "file":
            return self._from_file(source.place[0])
        with self._asking[source]:
            until, found = self._printed.get(source, (0.0, ""))
            if self._monotonic() >= until:
                found, kept = self._from_command(source)
                self._printed[source] = self._monotonic() + kept, found
        if isinstance(found, _Unusable):
            raise found
        return found

    def _from_file(self, path: str) -> str:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            told = f"{path}: {error.strerror}; create it for the user of the node"
            raise _Unusable(told) from None
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise _Unusable(f"{path} is not a file")
            if about.st_mode & _OTHERS_READ and path not in self._warned:
                self._warned.add(path)
                log.warning(
                    "every user of this machine can read the secret in %s; use chmod o-r", path
                )
            try:
                return _text(file.read(MOST_BYTES + 1), path)
            except OSError as error:
                raise _Unusable(f"{path}: {error.strerror}") from None

    def _from_command(self, source: SecretSource) -> tuple[str | _Unusable, float]:
        """Its output, or what is wrong; and how long to cache that."""
        program = shorten(source.place[0])
        try:
            return _text(self._printed_by(source), program), KEPT
        except _Unusable as error:
            return error, FAILURE_KEPT

    def _printed_by(self, source: SecretSource) -> bytes:
        program, printed = shorten(source.place[0]), bytearray()
        if self._spawner is None:
            raise Unavailable("no command can be started here")

        def keep(stream: str, data: bytes) -> None:
            if stream == "stdout":
                printed.extend(data[: MOST_BYTES + 1 - len(printed)])

        variables = dict(self._spawner.setup.inherited)
        for name in source.pass_env:
            with suppress(KeyError):
                variables[name] = os.environ[name]
        process = self._spawner.spawn(source.place, variables, as_node=True)
        with Stop() as stop:
            ended = supervise(process, keep, stop, LONGEST_COMMAND, grace=1.0)
        if ended.error is not None:
            raise _Unusable(f"{program} could not be started: {ended.error}")
        if ended.stopped == "timeout":
            raise _Unusable(f"{program} took longer than {LONGEST_COMMAND:g} s")
        if ended.stopped is not None:
            raise Unavailable(f"{program} was stopped: {ended.stopped}")
        if ended.code != 0:
            how = f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
            raise _Unusable(
                f"{program} ended with {how}; run it in a shell as the user of the node"
            )
        return bytes(printed)


def _from_environment(variable: str) -> str:
    found = os.environ.get(variable, "")
    if not found:
        raise _Unusable(f"the variable {variable} is not set; set it where the node is started")
    return found


def _text(data: bytes, place: str) -> str:
    if len(data) > MOST_BYTES:
        raise _Unusable(f"{place} has more than {MOST_BYTES:,} bytes")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise _Unusable(f"{place} is not text in UTF-8") from None


def _checked(value: str) -> str:
    if len(value) < SHORTEST_SECRET:
        raise _Unusable(
            f"it has fewer than {SHORTEST_SECRET} characters, too few to be hidden in logs"
        )
    if "\0" in value or _is_broken(value):
        raise _Unusable("it contains NUL, or is not text in UTF-8")
    return value


def _is_broken(value: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in value)
