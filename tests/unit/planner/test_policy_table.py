"""The table of catchup and overlap, written by hand: what four due times become.

The schedule is hourly, an outage lasted from 08:30 to 12:30, so 09:00 to 12:00 were missed.

idle      no run is active
busy      a run is active
waiting   a run is active, and the live due time of 08:00 has waited since before the outage
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from duebook.model.plan import Fire, Stretch
from tests.unit.planner.histories import TICK, History, clock, history

COALESCED = "skip 09:00-11:00 x3 coalesced"
SUPERSEDED = "skip 09:00-11:00 x3 superseded"
MISSED = "skip 09:00-12:00 x4 missed"
FIRE_9, FIRE_12 = "fire 09:00 catchup", "fire 12:00 catchup"
PACE_10 = "wait 10:00 pace"
WAIT_8, WAIT_9, WAIT_12 = "wait 08:00 overlap", "wait 09:00 overlap", "wait 12:00 overlap"
FIRE_8 = "fire 08:00 schedule"
GONE_8 = "skip 08:00 superseded"

TABLE = {
    ("one", "skip"): {
        "idle": [COALESCED, FIRE_12],
        "busy": [COALESCED, "skip 12:00 overlap"],
        "waiting": ["skip 08:00 overlap", COALESCED, "skip 12:00 overlap"],
    },
    ("one", "queue"): {
        "idle": [COALESCED, FIRE_12],
        "busy": [COALESCED, WAIT_12],
        "waiting": [WAIT_8],
    },
    ("one", "latest"): {
        "idle": [COALESCED, FIRE_12],
        "busy": [COALESCED, WAIT_12],
        "waiting": [GONE_8, COALESCED, WAIT_12],
    },
    ("one", "cancel"): {
        "idle": [COALESCED, FIRE_12],
        "busy": [COALESCED, FIRE_12],
        "waiting": [GONE_8, COALESCED, FIRE_12],
    },
    ("one", "allow"): {
        "idle": [COALESCED, FIRE_12],
        "busy": [COALESCED, FIRE_12],
        "waiting": [FIRE_8, COALESCED, FIRE_12],
    },
    ("skip", "skip"): {
        "idle": [MISSED],
        "busy": [MISSED],
        "waiting": ["skip 08:00 overlap", MISSED],
    },
    ("skip", "queue"): {"idle": [MISSED], "busy": [MISSED], "waiting": [WAIT_8]},
    ("skip", "latest"): {"idle": [MISSED], "busy": [MISSED], "waiting": [WAIT_8]},
    ("skip", "cancel"): {"idle": [MISSED], "busy": [MISSED], "waiting": [FIRE_8, MISSED]},
    ("skip", "allow"): {"idle": [MISSED], "busy": [MISSED], "waiting": [FIRE_8, MISSED]},
    ("all", "skip"): {
        "idle": [FIRE_9, PACE_10],
        "busy": ["skip 09:00 overlap", PACE_10],
        "waiting": ["skip 08:00-09:00 x2 overlap", PACE_10],
    },
    ("all", "queue"): {"idle": [FIRE_9, PACE_10], "busy": [WAIT_9], "waiting": [WAIT_8]},
    ("all", "latest"): {
        "idle": [SUPERSEDED, FIRE_12],
        "busy": [SUPERSEDED, WAIT_12],
        "waiting": [GONE_8, SUPERSEDED, WAIT_12],
    },
    ("all", "cancel"): {
        "idle": [SUPERSEDED, FIRE_12],
        "busy": [SUPERSEDED, FIRE_12],
        "waiting": [GONE_8, SUPERSEDED, FIRE_12],
    },
    ("all", "allow"): {
        "idle": [FIRE_9, PACE_10],
        "busy": [FIRE_9, PACE_10],
        "waiting": [FIRE_8, FIRE_9, PACE_10],
    },
}
CELLS = [(*pair, state) for pair, states in TABLE.items() for state in states]


def after_the_outage(catchup: str, overlap: str, state: str, **policies: str) -> History:
    life = history("08:30", catchup=catchup, overlap=overlap, **policies)
    if state != "idle":
        life.now = clock("07:00")
        life.add_run("before", "schedule", clock("07:00"))
    if state == "waiting":
        eight = clock("08:00")
        seen = (Stretch(clock("08:30"), "live", eight),)
        life.snapshot = replace(life.snapshot, watermark=eight - TICK, seen=seen)
    return life


def test_the_table_has_all_cells() -> None:
    assert len(CELLS) == len(set(CELLS)) == 3 * 5 * 3


@pytest.mark.parametrize(("catchup", "overlap", "state"), CELLS)
def test_an_outage_ends_as_the_policies_say(catchup: str, overlap: str, state: str) -> None:
    life = after_the_outage(catchup, overlap, state)
    assert life.at("12:30") == TABLE[catchup, overlap][state]


@pytest.mark.parametrize(("catchup", "overlap", "state"), CELLS)
def test_only_cancel_takes_the_active_run_from_its_node(
    catchup: str, overlap: str, state: str
) -> None:
    life = after_the_outage(catchup, overlap, state)
    planned = life.plan(clock("12:30"))
    fires = [d for d in planned.decisions if isinstance(d, Fire)]
    expected = {"before"} if overlap == "cancel" and state != "idle" and fires else set()
    assert {run_id for fire in fires for run_id in fire.cancels} == expected


@pytest.mark.parametrize(
    ("catchup", "overlap", "expected"),
    [
        ("one", "skip", [FIRE_12]),
        ("one", "queue", [FIRE_8, FIRE_12]),
        ("one", "latest", [FIRE_12]),
        ("one", "cancel", [FIRE_12]),
        ("one", "allow", [FIRE_8, FIRE_12]),
        ("skip", "queue", [FIRE_8]),
        ("skip", "latest", [FIRE_8]),
        ("all", "skip", ["fire 10:00 catchup", "fire 11:00 catchup", FIRE_12]),
        ("all", "queue", [FIRE_8, FIRE_9, "fire 10:00 catchup", "fire 11:00 catchup", FIRE_12]),
        ("all", "latest", [FIRE_12]),
        ("all", "allow", [FIRE_8, FIRE_9, "fire 10:00 catchup", "fire 11:00 catchup", FIRE_12]),
    ],
)
def test_in_the_end_these_run_when_each_run_takes_ten_seconds(
    catchup: str, overlap: str, expected: list[str]
) -> None:
    """The run from before ends just after the outage; the schedule is idle again each time."""
    life = after_the_outage(catchup, overlap, "waiting")
    if (catchup, overlap) == ("one", "skip"):
        life.settle(at="12:29")
        expected = [FIRE_8]  # and what follows in the same plan is skipped beside it
    found = [entry for entry in life.at("12:30") if entry.startswith("fire")]
    for second in range(1, 20):
        if life.runs:
            life.settle(at=f"12:30:{second * 2}")
        entries = life.at(f"12:30:{second * 2}")
        found += [entry for entry in entries if entry.startswith("fire")]
    assert found == expected
    assert not life.waits


# -- several live due times in one plan: a grace of five hours

LIVE = {
    ("skip", "idle"): ["fire 09:00 schedule", "skip 10:00-12:00 x3 overlap"],
    ("skip", "busy"): ["skip 09:00-12:00 x4 overlap"],
    ("queue", "idle"): ["fire 09:00 schedule", "wait 10:00 overlap"],
    ("queue", "busy"): ["wait 09:00 overlap"],
    ("latest", "idle"): ["fire 09:00 schedule", "skip 10:00-11:00 x2 superseded", WAIT_12],
    ("latest", "busy"): [SUPERSEDED, WAIT_12],
    ("cancel", "idle"): [SUPERSEDED, "fire 12:00 schedule"],
    ("cancel", "busy"): [SUPERSEDED, "fire 12:00 schedule"],
    ("allow", "idle"): [f"fire {hour}:00 schedule" for hour in ("09", "10", "11", "12")],
    ("allow", "busy"): [f"fire {hour}:00 schedule" for hour in ("09", "10", "11", "12")],
}


@pytest.mark.parametrize("catchup", ["one", "skip", "all"])
@pytest.mark.parametrize(("overlap", "state"), LIVE)
def test_live_due_times_meet_overlap_alone_whatever_the_catchup(
    catchup: str, overlap: str, state: str
) -> None:
    life = after_the_outage(catchup, overlap, state, grace="5h")
    assert life.at("12:30") == LIVE[overlap, state]


@pytest.mark.parametrize(
    ("overlap", "state", "expected"),
    [
        ("skip", "idle", [FIRE_9, "skip 10:00-12:00 x3 overlap"]),
        ("skip", "busy", ["skip 09:00-12:00 x4 overlap"]),
        ("queue", "idle", [FIRE_9, "wait 10:00 overlap"]),
        ("queue", "busy", [WAIT_9]),
        ("allow", "idle", [f"fire {hour}:00 catchup" for hour in ("09", "10", "11", "12")]),
        ("allow", "busy", [f"fire {hour}:00 catchup" for hour in ("09", "10", "11", "12")]),
    ],
)
def test_without_a_pace_the_whole_backlog_is_considered_at_once(
    overlap: str, state: str, expected: list[str]
) -> None:
    life = after_the_outage("all", overlap, state, catchup_pace="0s")
    assert life.at("12:30") == expected
