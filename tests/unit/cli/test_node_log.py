"""The log of a node: a date and a level on every line, or one JSON object."""

from __future__ import annotations

import io
import json
import logging
import re
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from duebook.cli.node_log import begin_log, log_level
from duebook.errors import Invalid
from duebook.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d (INFO   |WARNING|ERROR  ) (.*)")


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., io.StringIO]]:
    """Starts to log with the loggers for itself; returns what is written to stderr."""
    root, ours = logging.getLogger(), logging.getLogger("duebook")
    handlers, levels = root.handlers[:], (root.level, ours.level)

    def start(form: str = "text", announced: str = "") -> io.StringIO:
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        root.handlers[:] = []
        announce = begin_log(logging.INFO, form)
        if announced:
            announce(announced)
        return stream

    yield start
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_each_line_has_a_date_and_a_level(begin: Callable[..., io.StringIO]) -> None:
    written = begin()
    log = logging.getLogger("duebook.test")
    log.info("claimed %d runs", 3)
    log.warning("slow\x1b[2J")
    log.debug("not shown")
    found = [LINE.fullmatch(line) for line in written.getvalue().splitlines()]
    assert [each and each.groups() for each in found] == [
        ("INFO   ", "claimed 3 runs"),
        ("WARNING", "slow?[2J"),
    ]


def test_a_line_can_be_json(begin: Callable[..., io.StringIO]) -> None:
    written = begin("json")
    log = logging.getLogger("duebook.test")
    log.warning("two\nlines %s", "ä\x1b")
    log.error("failed", exc_info=ValueError("no luck"))
    first, second = map(json.loads, written.getvalue().splitlines())
    assert written.getvalue().isascii()
    assert datetime.fromisoformat(first.pop("at")).tzinfo is not None
    assert first == {"level": "warning", "logger": "duebook.test", "message": "two\nlines ä\x1b"}
    assert (second["level"], second["message"]) == ("error", "failed")
    assert "ValueError: no luck" in second["traceback"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_node_announces_itself_on_stdout_or_in_the_log(
    begin: Callable[..., io.StringIO], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    written = begin(form, "ready")
    if form == "text":
        assert (capsys.readouterr().out, written.getvalue()) == ("ready\n", "")
    else:
        assert capsys.readouterr().out == ""
        assert json.loads(written.getvalue())["message"] == "ready"


def test_quiet_and_verbose_choose_the_level() -> None:
    assert log_level(quiet=True, verbose=False) == logging.WARNING
    assert log_level(quiet=False, verbose=False) == logging.INFO
    assert log_level(quiet=False, verbose=True) == logging.DEBUG


def test_the_format_is_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "duebook.toml"
    file.write_text('log_format = "json"\n')
    assert load_settings({}, {}, tmp_path / "none").log_format == "text"
    assert load_settings({}, {}, file).log_format == "json"
    assert load_settings({}, {"DUEBOOK_LOG_FORMAT": "text"}, file).log_format == "text"
    with pytest.raises(Invalid, match='log_format "xml" is not one of text, json'):
        load_settings({"log_format": "xml"}, {}, file)
