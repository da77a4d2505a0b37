"""The web process of a node: serves the API and the dashboard on a socket that the node has bound.

It has its own interpreter, memory and database connections, so that no request can delay planning
or the renewal of the lease. It receives the database's address over a socket pair, queries its node
there, and ends when the pair is closed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.api.node_link import Line, NodeLink
from duebook.cli.node_log import begin_log
from duebook.machine import hide_memory

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["END_WITHIN", "main"]

log = logging.getLogger(__name__)

END_WITHIN: Final = 12.0
"""Seconds after the node closes the line within which this process exits in any case."""
LOOK_EVERY: Final = 1.0
OOM_SCORE: Final = "500"
"""From -1000 to 1000; a node has 0 by default."""
_PR_SET_PDEATHSIG: Final = 1


def main(line_fd: int, listening_fd: int, node_pid: int) -> None:
    """Serve until the node closes the line, or is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the node decides when this process ends
    _die_with(node_pid)
    _die_before_the_node()
    hide_memory()  # last, because oom_score_adj cannot be written afterwards
    line = Line(socket.socket(fileno=line_fd))
    given = line.receive()
    if given is None:  # the node is gone
        return
    os.environ.update(given["environ"])
    import duebook.api.event_loop  # while the node prepares
    import duebook.web.site  # noqa: F401

    told = line.receive()
    if told is None:  # the node could not start
        return
    begin_log(told["log_level"], told["log_format"])
    try:
        _serve(told, line, socket.socket(fileno=listening_fd), node_pid)
    except Exception as error:
        from duebook.errors import DuebookError

        if not isinstance(error, DuebookError):
            raise
        log.error("the API cannot start: %s", error)  # noqa: TRY400 - the message is enough
        sys.exit(1)


def _die_with(node_pid: int) -> None:
    """Works even while this process is stopped; other systems than Linux use the closed line."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != node_pid:
        sys.exit(1)


def _die_before_the_node() -> None:
    """If memory runs out, kill this process first: the node starts another one."""
    with suppress(OSError):  # the file exists only on Linux
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def _serve(told: dict[str, Any], line: Line, listening: socket.socket, node_pid: int) -> None:
    from duebook.api.authenticator import authenticator_of
    from duebook.api.limits import limits_for
    from duebook.api.origins import Hosts
    from duebook.api.server import ListeningSocket, Server
    from duebook.engine.garbage import collect_seldom
    from duebook.store.opening import open_store
    from duebook.targets.task import Tasks
    from duebook.web.site import create_site

    os.chdir(told["cwd"])
    link, over = NodeLink(line), threading.Event()
    _begin(lambda: _listen(link, over))
    store = open_store(told["database_url"], told["listen_url"], create=False)
    names, any_address, origins = told["hosts"]
    local = told["local_token_path"]
    app = create_site(
        store,
        authenticator_of(store, None if local is None else Path(local)),
        tasks=Tasks.load(told["tasks"]),
        measures=link.measures,
        trouble=link.trouble,
        node_pid=node_pid,
        hosts=Hosts(frozenset(names), any_address, frozenset(origins)),
    )
    place = ListeningSocket(listening, told["host"], told["port"])
    collect_seldom()
    with Server(app, place, limits_for(told["max_connections"])) as server:
        server.start()
        link.answer_pings(server.call_soon)
        while not over.wait(LOOK_EVERY):
            if not server.alive:
                sys.exit(1)  # the node starts another one
    store.close()
    logging.shutdown()
    os._exit(0)  # without waiting for threads whose clients are gone


def _listen(link: NodeLink, over: threading.Event) -> None:
    try:
        link.listen()
    finally:
        over.set()
        timer = threading.Timer(END_WITHIN, os._exit, (1,))
        timer.daemon = True
        timer.start()


def _begin(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="duebook-node-link", daemon=True).start()
