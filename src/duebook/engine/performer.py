"""Performs runs by their kind of target, with a log; the seam between slots and targets."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from duebook.clock import utc_now
from duebook.engine.logs import RunLog
from duebook.errors import Unavailable
from duebook.model.run import Outcome
from duebook.model.target import HttpTarget
from duebook.targets.command import perform_command
from duebook.targets.processes import Stop
from duebook.targets.templates import TemplateFailed, rendered

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from duebook.targets.addresses import Network
    from duebook.targets.spawner import Spawner

__all__ = ["TargetPerformer"]

LOG_CAP: Final = 1_000_000
_SECRETS: Final = ("DUEBOOK_DATABASE_URL", "DUEBOOK_LISTEN_URL", "DUEBOOK_TOKEN")


class TargetPerformer:
    """What a worker node uses; commands go through its spawner."""

    def __init__(
        self,
        store: Store,
        spawner: Spawner,
        revive: Callable[[], None],
        log_cap: int = LOG_CAP,
        http_allow: tuple[Network, ...] = (),
    ) -> None:
        self._store = store
        self._spawner = spawner
        self._revive = revive
        self._log_cap = log_cap
        self._http_allow = http_allow
        self._open_logs: set[RunLog] = set()
        self._inherited = {k: v for k, v in os.environ.items() if k not in _SECRETS}

    def new_stop(self) -> Stop:
        return Stop()

    def perform(self, claim: Claim, stop: Stop) -> Outcome:
        log = RunLog(self._store, claim.token, utc_now, time.monotonic, self._log_cap)
        self._open_logs.add(log)
        try:
            outcome = self._perform(claim, stop, log)
            if outcome.error:
                log.note(outcome.error)
            log.close(give_up=lambda: stop.reason == "lost")
        finally:
            self._open_logs.discard(log)
        return outcome

    def _perform(self, claim: Claim, stop: Stop, log: RunLog) -> Outcome:
        try:
            claim = rendered(claim)
        except TemplateFailed as error:
            return Outcome("failed", "template", str(error))
        if isinstance(claim.spec.target, HttpTarget):
            from duebook.targets.http import perform_http  # a node without requests starts quicker

            return perform_http(claim, stop, log.write, log.note, self._http_allow)
        try:
            return perform_command(claim, self._spawner, stop, log.write, self._inherited)
        except Unavailable:  # the spawner is gone, which says nothing about the work
            self._revive()
            return Outcome("cancelled", "spawner")

    def flush_logs(self) -> None:
        """Write what runs printed a while ago, so that readers see it while they are silent."""
        for log in self._open_logs.copy():
            log.flush_if_overdue()
