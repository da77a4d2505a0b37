"""Sends alerts through Apprise, an extra that knows many more services.

It runs in a separate process, in which each connection is checked when it is opened.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.errors import Invalid, Unavailable, shorten
from duebook.sinks.channels.answers import MessageRefused, plain
from duebook.targets.processes import Stop, supervise

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.alert_message import AlertMessage
    from duebook.sinks.channels import ChannelSetup

__all__ = ["AppriseChannel"]

KINDS: Final = {"problem": "failure", "resolved": "success", "test": "info"}
PROGRAM: Final = "duebook.sinks.channels.apprise_process"
GRACE: Final = 2.0
MOST_KEPT: Final = 10_000
"""Bytes of its last output."""


class AppriseChannel:
    def __init__(self, url: str, setup: ChannelSetup, hide: Callable[[str], str]) -> None:
        try:
            import apprise
        except ImportError:
            raise Invalid(
                "an apprise channel needs Apprise, which is not installed: "
                "pip install 'apprise>=1.9,<3'"
            ) from None
        if setup.helper is None:
            raise Invalid("this node starts no processes, as an apprise channel needs")
        logging.getLogger("apprise").propagate = False  # it may log parts of URLs
        if apprise.Apprise.instantiate(url) is None:
            raise Invalid("Apprise does not understand the url of this channel")
        self._spawner = setup.helper
        self._form = {"url": url, "allowed": [str(network) for network in setup.allowed]}
        self._timeout = setup.timeout
        self._hide = hide
        self._stop = Stop()

    def send(self, message: AlertMessage) -> None:
        link = "" if message.link is None else f"\n{message.link}"
        form = self._form | {
            "title": plain(message.title).replace("\n", " "),
            "body": plain(message.text) + link,
            "type": KINDS[message.status],
        }
        report = self._run(json.dumps(form).encode())
        if report["sent"]:
            return
        if report["refused"]:
            told = f"no connection: {report['refused'][0]}"
            raise Unavailable(f"{told}; the setting http_allow can allow it")
        why = f": {shorten(self._hide(report['said'][0]), 200)}" if report["said"] else ""
        # it does not report whether a retry would help
        raise MessageRefused(f"Apprise could not send it{why}")

    def _run(self, given: bytes) -> dict[str, Any]:
        """The report of the process; raises Unavailable if there is none."""
        written = bytearray()

        def keep(stream: Literal["stdout", "stderr"], piece: bytes) -> None:
            if stream == "stdout":
                written.extend(piece)
                del written[:-MOST_KEPT]

        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.flush()
            file.seek(0)
            program = [sys.executable, "-m", PROGRAM]
            inherited = dict(self._spawner.setup.inherited)
            process = self._spawner.spawn(program, inherited, as_node=True, stdin=file.fileno())
            ended = supervise(process, keep, self._stop, self._timeout, GRACE)
        try:
            report: dict[str, Any] = json.loads(written.decode().splitlines()[-1])
        except (ValueError, IndexError):
            why = ended.stopped or ended.error or f"exit code {ended.code}"
            raise Unavailable(f"Apprise did not finish: {self._hide(why)}") from None
        return report

    def interrupt(self) -> None:
        self._stop.set("shutdown")
