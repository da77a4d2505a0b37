"""Sends one message through Apprise, in a separate process in which every connection is checked.

Apprise and its libraries open connections themselves, and follow redirects. Python calls an audit
hook for each, with the actual address, so a name cannot resolve to another address afterwards.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from duebook.targets.addresses import refusal

if TYPE_CHECKING:
    from duebook.targets.addresses import Network

__all__ = ["Judge"]

CONNECTS: Final = ("socket.connect", "socket.sendto", "socket.sendmsg")


class Judge:
    """An audit hook that allows connections to permitted addresses only, and records the others."""

    def __init__(self, allowed: tuple[Network, ...]) -> None:
        self._allowed = allowed
        self.refused: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CONNECTS and (why := self._refusal(*arguments[:2])) is not None:
            self.refused.append(why)
            raise ConnectionRefusedError(why)

    def _refusal(self, connection: socket.socket, address: Any) -> str | None:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return "it connects to a service of the machine itself"
        if address is None:
            return None  # of a connection that was checked when it was opened
        host = str(address[0]).partition("%")[0]
        try:
            why = refusal(host, self._allowed)
        except ValueError:
            return f"{host} is a name, which could mean any address"
        return None if why is None else f"{host} is {why}"


def main() -> None:
    """Read the message from standard input, and write the result as the last line."""
    told = json.load(sys.stdin)
    import apprise

    judge = Judge(tuple(ip_network(text) for text in told["allowed"]))
    sys.addaudithook(judge)
    library: Any = apprise
    with library.LogCapture(level=logging.WARNING) as log:
        service = apprise.Apprise.instantiate(told["url"])
        sent = service is not None and service.notify(
            body=told["body"], title=told["title"], notify_type=told["type"]
        )
        said = log.getvalue().strip().splitlines()
    report = {"sent": bool(sent), "refused": judge.refused[:1], "said": said[-1:]}
    sys.stdout.write(f"\n{json.dumps(report)}\n")


if __name__ == "__main__":
    main()
