"""Triggers of APScheduler 4 are due when that version says so.

Both versions cannot be installed together, so support/apscheduler4_due.json has what 4.0.0a6
pickled, and of the due times that it computed for a year (at most 400) the number, the first two,
the last and a digest of all.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duebook.imports.aps_triggers import read_aps_trigger
from duebook.imports.files import next_due
from duebook.imports.found import Found
from duebook.imports.pickles import unpickle
from duebook.timetext import format_instant
from duebook.triggers import load_trigger

NOW = datetime(2026, 11, 18, 6, 0, 30, tzinfo=UTC)
RECORDED = json.loads(
    (Path(__file__).parents[2] / "support" / "apscheduler4_due.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one["name"])
def test_a_trigger_is_due_when_apscheduler_4_says(recorded: dict[str, Any]) -> None:
    read = read_aps_trigger(unpickle(base64.b64decode(recorded["pickle"])), NOW)
    triggers = tuple(load_trigger(trigger) for trigger in read.triggers)
    found = next_due(Found("job", read.form, "", triggers=triggers), NOW, 400)
    due = [format_instant(one) for one in found if one <= NOW + timedelta(days=365)]
    assert (due[:2], due[-1], len(due)) == (recorded["first"], recorded["last"], recorded["count"])
    assert hashlib.sha256("\n".join(due).encode()).hexdigest() == recorded["digest"]
