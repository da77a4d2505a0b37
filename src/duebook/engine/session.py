"""The description of a process when it starts to work on the database."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from duebook.ids import new_id
from duebook.machine import this_process
from duebook.model.serving import NONE
from duebook.store.values import SessionInfo
from duebook.triggers import tzdata_version
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.serving import Serving
    from duebook.store.values import Labels

__all__ = ["new_session"]


def new_session(
    roles: str,
    tasks: tuple[str, ...] = (),
    queues: tuple[str, ...] = (),
    labels: Labels = (),
    namespaces: Serving = NONE,
    secrets: Mapping[str, list[str]] | None = None,
) -> SessionInfo:
    """The session of this process when it starts."""
    host, version, tzdata = socket.gethostname(), __version__, tzdata_version()
    about = (roles, version, tzdata, tasks, queues, labels, namespaces)
    offered = secrets or {}
    if (this := this_process()) is None:
        return SessionInfo(new_id(), host, os.getpid(), *about, secrets=offered)
    return SessionInfo(
        new_id(), host, this.pid, *about, this.machine, this.started, secrets=offered
    )
