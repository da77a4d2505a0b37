"""Passes alerts to a command: in its environment, and as JSON on its standard input."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Final, Literal

from duebook.errors import Invalid, Unavailable, shorten
from duebook.sinks.channels.answers import MessageRefused, cut
from duebook.targets.processes import Stop, supervise
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.alert_message import AlertMessage
    from duebook.model.channel import Channel
    from duebook.targets.processes import Exit
    from duebook.targets.spawner import Spawner

__all__ = ["CommandChannel", "variables_of"]

TIMEOUT: Final = "30s"
GRACE: Final = 2.0
LATER: Final = 75
"""EX_TEMPFAIL of sysexits.h: retry later."""
LONGEST_VARIABLE: Final = 30_000
MOST_KEPT: Final = 2_000
"""Bytes of its last output."""


class CommandChannel:
    """No part of a message is part of the command: it remains data."""

    def __init__(self, channel: Channel, spawner: Spawner, hide: Callable[[str], str]) -> None:
        self._argv: list[str] = channel.options["command"]
        self._timeout = parse_duration(channel.options.get("timeout", TIMEOUT)).total_seconds()
        self._spawner = spawner
        self._hide = hide
        self._stop = Stop()

    def send(self, message: AlertMessage) -> None:
        written = bytearray()

        def keep(_: Literal["stdout", "stderr"], piece: bytes) -> None:
            written.extend(piece)
            del written[:-MOST_KEPT]

        variables = dict(self._spawner.setup.inherited) | variables_of(message)
        with tempfile.TemporaryFile() as given:
            given.write(json.dumps(message.to_json(), ensure_ascii=False).encode())
            given.flush()
            given.seek(0)
            try:
                process = self._spawner.spawn(self._argv, variables, stdin=given.fileno())
            except Invalid as error:
                raise MessageRefused(str(error)) from None
            ended = supervise(process, keep, self._stop, self._timeout, GRACE)
        self._judge(ended, written.decode("utf-8", "replace"))

    def _judge(self, ended: Exit, written: str) -> None:
        if ended.stopped == "timeout":
            raise MessageRefused(f"the command took longer than {self._timeout:g} s")
        if ended.stopped is not None:
            raise Unavailable(f"the command was stopped: {ended.stopped}")
        if ended.error is not None:
            raise MessageRefused(self._hide(ended.error))
        if ended.code == 0:
            return
        how = f"signal {ended.signal}" if ended.code is None else f"exit code {ended.code}"
        lines = [line for line in written.splitlines() if line.strip()]
        last = f": {shorten(self._hide(lines[-1]), 200)}" if lines else ""
        told = f"the command ended with {how}{last}"
        raise Unavailable(told) if ended.code == LATER else MessageRefused(told)

    def interrupt(self) -> None:
        self._stop.set("shutdown")


def variables_of(message: AlertMessage) -> dict[str, str]:
    """DUEBOOK_ALERT_KIND, DUEBOOK_ALERT_TITLE and so on; empty for what a message lacks."""
    form = message.to_json()
    texts = {name: "" if value is None else str(value) for name, value in form.items()}
    return {
        f"DUEBOOK_ALERT_{name.upper()}": cut(text.replace("\0", " "), LONGEST_VARIABLE)
        for name, text in texts.items()
    }
