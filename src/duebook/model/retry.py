"""Whether and when a failed attempt is retried: a value and its arithmetic."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import read_length
from duebook.randomness import fraction
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Outcome

__all__ = ["Retry", "load_retry"]

MOST_ATTEMPTS: Final = 1_000
MOST_FAILURES: Final = 100
LONGEST_DELAY: Final = timedelta(days=30)
HOPELESS: Final = frozenset({"fenced", "output", "payload", "refused", "template"})
"""Reasons that a retry would not change."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry after a failure; `attempts` includes the first one.

    The delay is multiplied by `backoff` after each failure, up to `max_delay`; with `jitter` it
    is shortened by up to a half, so that runs that failed together do not retry together. `on`
    lists the failures to retry: exit codes, reasons such as "timeout", and exceptions (a class
    name includes its subclasses); empty means all failures.

    >>> Retry(attempts=5, delay="2s", max_delay="1m", on=[ConnectionError, "timeout"]).on
    ('ConnectionError', 'timeout')
    """

    attempts: int = 3
    delay: timedelta = timedelta(seconds=10)
    backoff: float = 2.0
    max_delay: timedelta = timedelta(minutes=10)
    jitter: bool = True
    on: tuple[int | str, ...] = ()

    if TYPE_CHECKING:  # lengths may be given as text

        def __init__(
            self,
            attempts: int = 3,
            delay: str | timedelta = ...,
            backoff: float = 2.0,
            max_delay: str | timedelta = ...,
            jitter: bool = True,
            on: Sequence[int | str | type[BaseException]] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("delay", "max_delay"):
            object.__setattr__(self, name, _length(name, getattr(self, name)))
        object.__setattr__(self, "on", _failures(self.on))
        if not _is_whole(self.attempts) or not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise Invalid(
                f"retry attempts {quoted(self.attempts)} is not a number from 1 to 1,000; it "
                "counts the first attempt, unlike retries in a flow file"
            )
        if isinstance(self.backoff, bool) or not isinstance(self.backoff, int | float):
            raise Invalid(f"retry backoff {quoted(self.backoff)} is not a number")
        if not 1 <= self.backoff <= 100:
            raise Invalid(f"retry backoff {self.backoff} is not between 1 and 100")
        if not isinstance(self.jitter, bool):
            raise Invalid(f"retry jitter {quoted(self.jitter)} is not true or false")

    def delay_after(self, outcome: Outcome, failures: int, seed: str) -> timedelta | None:
        """How long to wait after the `failures`-th failure; None if that was the last attempt."""
        if failures >= self.attempts or not self._worth(outcome):
            return None
        seconds = self.delay.total_seconds()
        for _ in range(failures - 1):
            seconds = min(seconds * self.backoff, self.max_delay.total_seconds())
        seconds = min(seconds, self.max_delay.total_seconds())
        if self.jitter:
            seconds *= 1 - fraction(seed, failures) / 2
        return timedelta(seconds=seconds)

    def _worth(self, outcome: Outcome) -> bool:
        if outcome.status != "failed" or outcome.reason in HOPELESS:
            return False
        if not self.on:
            return True
        kinds = outcome.kinds or ((outcome.error or "").partition(":")[0],)
        return not {outcome.exit_code, outcome.reason, *kinds}.isdisjoint(self.on)

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default or field.name == "attempts":
                plain = format_duration(value) if isinstance(value, timedelta) else value
                form[field.name] = list(plain) if isinstance(plain, tuple) else plain
        return form


def load_retry(form: object) -> Retry:
    """From its JSON form, or a number of attempts; raises Invalid that names the part."""
    if isinstance(form, Retry):
        return form
    if _is_whole(form):
        return Retry(attempts=form)  # type: ignore[arg-type]
    known = [field.name for field in fields(Retry)]
    if not isinstance(form, dict):
        raise Invalid(f'retry {shorten(form)} is not an object such as {{"attempts": 3}}')
    if unknown := [key for key in form if key not in known]:
        raise Invalid(
            f'retry key "{shorten(unknown[0])}" is unknown; use one of {", ".join(known)}'
        )
    return Retry(**form)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _length(name: str, value: Any) -> timedelta:
    length = read_length(f"retry {name}", value)
    if length > LONGEST_DELAY:
        raise Invalid(f"retry {name} {format_duration(length)} is longer than 30 days")
    return length


def _failures(value: Any) -> tuple[int | str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MOST_FAILURES:
        raise Invalid(f"retry on has {len(items):,} items; at most {MOST_FAILURES} are allowed")
    items = [item.__name__ if _is_exception(item) else item for item in items]
    for item in items:
        if not _is_whole(item) and not (isinstance(item, str) and 0 < len(item) <= 200):
            raise Invalid(f"retry on {shorten(item)} is not an exit code or an error name")
    return tuple(items)
