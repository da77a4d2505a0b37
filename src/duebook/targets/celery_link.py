"""Finds a Celery app, and connects to its broker and its result backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import Invalid, quoted, shorten
from duebook.targets.celery_broker import CeleryBroker
from duebook.targets.celery_results import CeleryResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.celery_target import CeleryTarget
    from duebook.targets.celery_states import CeleryRecord

__all__ = ["AnyBroker", "AnyCelery", "AnyResults", "CeleryLink", "load_celery_app"]

MISSING: Final = "Celery is not installed; run pip install '.[celery]' in a copy of the repository"


class AnyBroker(Protocol):
    """One connection to a broker: see `CeleryBroker`."""

    def connect(self) -> None: ...

    def send(
        self,
        target: CeleryTarget,
        kwargs: dict[str, Any],
        task_id: str,
        bare: bool,
        traceparent: str | None = None,
    ) -> None: ...

    def revoke(self, task_ids: Sequence[str], terminate: bool) -> None: ...


class AnyResults(Protocol):
    """One connection to a result backend: see `CeleryResults`."""

    def mark(self, task_id: str) -> bool: ...

    def look(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]: ...


class AnyCelery(Protocol):
    """The parts of Celery that runs need."""

    @property
    def waits(self) -> bool:
        """Whether the app has a result backend that others can read."""

    def broker(self) -> AnyBroker:
        """A separate connection to the broker, for one thread."""

    def results(self) -> AnyResults:
        """A separate connection to the result backend, for one thread."""


def load_celery_app(text: str | None) -> CeleryLink | None:
    """The app that a setting names, with its tasks imported; None if the setting is empty.

    Raises Invalid if it cannot be imported, or is not a Celery app.
    """
    if not text:
        return None
    try:
        from celery import Celery
        from celery.app.utils import find_app
    except ImportError:
        raise Invalid(f"celery_app {quoted(text)}: {MISSING}") from None
    try:
        app = find_app(text)
        if isinstance(app, Celery):
            app.loader.import_default_modules()
            app.finalize()
    except Exception as error:
        told = f"{type(error).__name__}: {shorten(str(error), 200)}"
        raise Invalid(f"celery_app {quoted(text)} cannot be imported: {told}") from error
    if not isinstance(app, Celery):
        raise Invalid(
            f"celery_app {quoted(text)} is not a Celery app but a {type(app).__name__}; use a name "
            "such as proj or proj.celery:app"
        )
    return CeleryLink(app)


class CeleryLink:
    """One Celery app."""

    def __init__(self, app: Any) -> None:
        from celery.backends.base import DisabledBackend
        from celery.backends.rpc import RPCBackend

        if app.conf.task_always_eager:
            raise Invalid(
                "the Celery app has task_always_eager, so nothing would reach its workers; turn it "
                "off where Duebook runs"
            )
        self.app = app
        self.waits = not isinstance(app.backend, DisabledBackend | RPCBackend)

    @property
    def name(self) -> str:
        return str(self.app.main or "celery")

    def broker(self) -> CeleryBroker:
        return CeleryBroker(self.app, self.waits)

    def results(self) -> CeleryResults:
        return CeleryResults(self.app)
