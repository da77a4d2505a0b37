"""Pickles are read without loading, importing or calling anything that they name."""

from __future__ import annotations

import os
import pickle
import sys
import tracemalloc
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from duebook.errors import Invalid
from duebook.imports import pickles
from duebook.imports.pickles import MOST_BYTES, Thing, unpickle, zone_of


class Calls:
    """A pickle that calls a function when it is loaded as usual."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def test_a_function_that_a_pickle_names_is_not_called(tmp_path: Path) -> None:
    file = tmp_path / "made"
    found = unpickle(pickle.dumps(Calls(os.system, f"touch {file}")))
    assert isinstance(found, Thing)
    assert (found.name, found.args) == ("posix:system", (f"touch {file}",))
    assert not file.exists()


def test_eval_and_what_it_returned_are_not_called() -> None:
    content = b"cbuiltins\neval\n(S'print'\ntR(S'hello'\ntR."
    found = unpickle(content)
    assert isinstance(found, Thing)
    assert found.args[1:] == ("hello",)


def test_a_module_that_a_pickle_names_is_not_imported() -> None:
    found = unpickle(b"cthis\ns\n.")
    assert found.name == "this:s"
    assert "this" not in sys.modules


def test_a_pickle_cannot_change_the_reader() -> None:
    """BUILD sets attributes of what is on the stack."""
    for name in (b"cdatetime\ndatetime\n", b"cdatetime\ntimedelta\n"):
        with pytest.raises(Invalid, match="cannot be read"):
            unpickle(name + b"(N}S'__doc__'\nS'x'\nstb.")


def test_dates_times_lengths_and_their_zones_are_real() -> None:
    brussels = datetime(2026, 11, 18, 6, tzinfo=ZoneInfo("Europe/Brussels"))
    values = [date(2026, 1, 1), timedelta(minutes=5), datetime(2026, 1, 1, tzinfo=UTC), brussels]
    assert unpickle(pickle.dumps(values)) == values
    assert unpickle(pickle.dumps(datetime(2026, 1, 1))) == datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (pickle.dumps(ZoneInfo("Europe/Brussels")), "Europe/Brussels"),
        (pickle.dumps(ZoneInfo("Etc/UTC")), "UTC"),
        (pickle.dumps(UTC), "UTC"),
        (b"cpytz\n_UTC\n(tR.", "UTC"),
        (b"cpytz\n_p\n(S'Asia/Tokyo'\nI32400\nI0\nS'JST'\ntR.", "Asia/Tokyo"),
        (pickle.dumps("Asia/Tokyo"), "Asia/Tokyo"),
    ],
)
def test_zones_of_several_libraries_have_a_name(content: bytes, name: str) -> None:
    assert zone_of(unpickle(content)) == name


def test_a_zone_without_a_name_is_refused() -> None:
    with pytest.raises(Invalid, match="no IANA name"):
        zone_of(unpickle(b"cdateutil.tz\ntzlocal\n(tR."))


@pytest.mark.parametrize("content", [b"", b"\x80", b"hello", b"\x80\x04\x8c\xffx", b"("])
def test_broken_pickles_are_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="the pickle cannot be read"):
        unpickle(content)


def test_a_huge_pickle_is_refused() -> None:
    with pytest.raises(Invalid, match="at most"):
        unpickle(b"x" * (MOST_BYTES + 1))


def doubled(times: int) -> Any:
    """A small value that is huge when it is written out."""
    value: Any = ["x"]
    for _ in range(times):
        value = [value, value]
    return value


def test_a_bomb_of_shared_parts_is_refused() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for content in (pickle.dumps(doubled(40)), pickle.dumps(itself)):
        with pytest.raises(Invalid, match="a pickle with more than"):
            unpickle(content)


def test_tuples_are_limited_before_they_are_hashed_as_keys() -> None:
    """A hash recurses without a limit, and computes a shared part as often as it is used."""
    deep = b"}(" + b"(" * 5_000 + b"t" * 5_000 + b"Nu."
    shared = b"}(" + b"N" + b"2\x86" * 40 + b"Nu."
    for content in (deep, shared):
        with pytest.raises(Invalid, match="a tuple is too large or nested too deep"):
            unpickle(content)


def test_a_few_bytes_do_not_reserve_memory() -> None:
    tracemalloc.start()
    try:
        assert unpickle(b"Nr\xff\xff\xff\x00.") is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_nothing_else_in_duebook_reads_pickles() -> None:
    source = Path(pickles.__file__).parent.parent
    named = ("import pickle", "from pickle", "pickle.load", "shelve", "marshal.load")
    found = {
        path.name
        for path in source.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in named)
    }
    assert found == {"pickles.py"}
