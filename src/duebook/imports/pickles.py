"""Reads pickles without the classes in them: the only place in Duebook that unpickles anything.

A pickle is a program that names functions to call. Here every name stands for an inert `Thing` that
records how it was called, and nothing is imported. Only dates, times and durations of the standard
library become real objects. Size and nesting are limited.

The reader is the one written in Python, not the one in C: a few bytes can make the C one allocate
gigabytes, and neither checks how deep a tuple is before it becomes the key of a dict.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
from typing import TYPE_CHECKING, Any, ClassVar, Final
from zoneinfo import ZoneInfo

from duebook.errors import Invalid, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Thing", "unpickle", "zone_of"]

MOST_BYTES: Final = 1_000_000
MOST_VALUES: Final = 100_000
DEEPEST: Final = 100
_REAL: Final[dict[tuple[str, str], Any]] = {
    ("datetime", name): getattr(dt, name) for name in ("date", "time", "timedelta", "timezone")
}


class Thing:
    """A stand-in for an object of a class that is not loaded."""

    name = ""
    """module and class, such as apscheduler.triggers.cron:CronTrigger"""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
        self.state: Any = {}

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Thing:
        thing = super().__new__(cls)
        thing.args, thing.kwargs, thing.state = (), {}, {}
        return thing

    def __call__(self, *args: Any, **kwargs: Any) -> Thing:
        """The result of a call: a thing that records what was called."""
        return Thing(self, *args, **kwargs)

    def __setstate__(self, state: Any) -> None:
        self.state = state


def unpickle(content: bytes) -> Any:
    """The value of a pickle, with things in it; raises Invalid."""
    if len(content) > MOST_BYTES:
        raise Invalid(f"a pickle of {len(content):,} bytes; at most {MOST_BYTES:,} are read")
    try:
        value = _Reader(io.BytesIO(content)).load()
    except Exception as error:  # a broken pickle can raise anything
        told = f"{type(error).__name__}: {shorten(str(error), 100)}"
        raise Invalid(f"the pickle cannot be read: {told}") from None
    _check_size(value)
    return value


def _check_size(value: Any) -> None:
    """Raises Invalid for a value that is large when it is written out: its parts may be shared, or
    contain themselves."""
    number, unseen = 1, [(value, 0)]
    while unseen:
        item, depth = unseen.pop()
        parts = _parts(item)
        number += len(parts)
        if number > MOST_VALUES or depth > DEEPEST:
            raise Invalid(
                f"a pickle with more than {MOST_VALUES:,} values, or {DEEPEST} levels of them"
            )
        unseen += [(part, depth + 1) for part in parts]


def _parts(item: Any) -> list[Any]:
    match item:
        case Thing():
            return [*item.args, *item.kwargs.values(), item.state]
        case dict():
            return [*item, *item.values()]
        case list() | tuple() | set() | frozenset():
            return list(item)
    return []


class _Reader(pickle._Unpickler):  # noqa: SLF001 - a limit for tuples needs it
    """Tuples are limited when they are created: as keys they are hashed, in C, as often as their
    parts are shared, and as deep as they are nested."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._tuples: dict[int, tuple[Any, int, int]] = {}
        """by id: each tuple, its size with all shared parts counted, and its depth"""

    def _limit(self) -> None:
        made = self.stack[-1]  # type: ignore[attr-defined]
        parts = [self._tuples[id(one)] for one in made if id(one) in self._tuples]
        size = len(made) + sum(size for _, size, _ in parts)
        depth = 1 + max((depth for _, _, depth in parts), default=0)
        if size > MOST_VALUES or depth > DEEPEST:
            raise pickle.UnpicklingError("a tuple is too large or nested too deep")
        self._tuples[id(made)] = (made, size, depth)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("datetime", "datetime"):
            return self._datetime  # a method, so that a pickle cannot change it
        if (module, name) in _REAL:
            return _REAL[module, name]
        return type("Thing", (Thing,), {"name": f"{module}:{name}"})

    def _datetime(self, *args: Any) -> dt.datetime:
        """A time whose zone may be a thing."""
        if args and isinstance(args[-1], Thing):
            naive = dt.datetime(*args[:-1])  # noqa: DTZ001 - its zone comes next
            return naive.replace(tzinfo=ZoneInfo(zone_of(args[-1])))
        return dt.datetime(*args)  # noqa: DTZ001 - as it was written


def _limited(load: Callable[[_Reader], None]) -> Callable[[_Reader], None]:
    def read(reader: _Reader) -> None:
        load(reader)
        reader._limit()  # noqa: SLF001 - of this module

    return read


for _sign in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
    _Reader.dispatch[_sign[0]] = _limited(_Reader.dispatch[_sign[0]])


def zone_of(value: Any) -> str:
    """The IANA name of a zone: a string, a fixed UTC, or a thing of zoneinfo, pytz or dateutil.
    Raises Invalid."""
    if isinstance(value, str):
        return "UTC" if value == "Etc/UTC" else value
    if value is dt.UTC or value == dt.UTC:
        return "UTC"
    if isinstance(value, Thing):
        name = value.name
        texts = [arg for arg in value.args if isinstance(arg, str)]
        if name.startswith("pytz") and name.endswith("_UTC"):
            return "UTC"
        if texts and ("/" in texts[0] or texts[0].isalpha()):
            return zone_of(texts[0])
    raise Invalid("its time zone has no IANA name")
