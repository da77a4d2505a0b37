"""What happens in a simulated world: nodes, schedules, faults and actions of users, all drawn from
one seed. They are plain values, so that parts can be removed when a failure is reduced."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.sim import graphs

__all__ = [
    "CATALOGUE",
    "CLOSED",
    "LIMITS",
    "LONGEST_STORM",
    "RATES",
    "Action",
    "Fault",
    "Script",
    "definition",
    "draw",
]

LONGEST_STORM: Final = 180.0
COMMAND: Final = {"command": ["true"]}
CATALOGUE: Final[dict[str, dict[str, Any]]] = {
    "skip": {"trigger": {"every": "2s"}},
    "queue": {"trigger": {"every": "3s"}, "overlap": "queue"},
    "latest": {"trigger": {"every": "2s"}, "overlap": "latest"},
    "allow": {"trigger": {"every": "4s"}, "overlap": "allow"},
    "cancel": {"trigger": {"every": "5s"}, "overlap": "cancel"},
    "cron": {"trigger": {"cron": "*/7 * * * * *"}, "overlap": "queue", "catchup": "all"},
    "all": {"trigger": {"every": "3s"}, "catchup": "all", "grace": "2s", "catchup_pace": "1s"},
    "bounded": {
        "trigger": {"every": "2s"},
        "catchup": "all",
        "catchup_limit": 3,
        "grace": "1s",
        "overlap": "queue",
    },
    "missed": {"trigger": {"every": "3s"}, "catchup": "skip", "grace": "2s"},
    "one": {"trigger": {"every": "2s"}, "grace": "2s", "on_resume": "catchup"},
    "retry": {
        "trigger": {"every": "6s"},
        "retry": {"attempts": 3, "delay": "1s"},
        "overlap": "queue",
    },
    "timeout": {"trigger": {"every": "4s"}, "timeout": "5s"},
    "expire": {"trigger": {"every": "2s"}, "expire_after": "4s", "overlap": "allow"},
    "jitter": {"trigger": {"every": "5s"}, "jitter": "2s"},
    "limited": {"trigger": {"every": "4s"}, "overlap": "allow", "queue": "narrow"},
    "crowded": {"trigger": {"every": "5s"}, "overlap": "queue", "queue": "pair"},
    "crowding": {"trigger": {"every": "3s"}, "overlap": "allow", "queue": "pair"},
    "closed": {"trigger": {"every": "3s"}, "overlap": "queue", "calendar": {"except": "closed"}},
    "paced": {"trigger": {"every": "2s"}, "overlap": "allow", "queue": "paced"},
    "event": {"trigger": {"every": "2s"}, "target": {"event": {"topic": "sim", "type": "due"}}},
}
"""Definitions by name; each is about one policy. A command unless it has a target. Those of flows
are in graphs.py."""
LIMITS: Final = {"narrow": 1, "pair": 2}
"""Queues, and how many of their runs may be active at the same time."""
RATES: Final = {"paced": (6, 10)}
"""Queues, and how many of their runs may begin in how many seconds."""
CLOSED: Final = ("2026-02-28", "2026-03-01", "2026-07-01")
"""Days that the calendar may close: before midnight, after it, and another day."""
PERIODS: Final = ("2s", "3s", "5s", "7s")
CROWDED: Final = ("skip", "queue", "latest", "allow", "all", "missed", "one", "jitter", "event")
"""Of which a crowded world has many."""
DOINGS: Final = (
    *("pause", "resume", "update", "update", "trigger", "trigger", "cancel", "retry"),
    *("close", "delete", "create", "skip_next", "reschedule", "publish", "publish", "publish"),
)
KINDS: Final = (
    *("crash", "crash", "crash", "crash", "fail", "fail", "fail", "stop", "stop", "deaf"),
    *("slow", "jump", "database_jump"),
)


def definition(name: str) -> dict[str, Any]:
    """Of a schedule; `skip-3` is another one like `skip`."""
    kind = name.partition("-")[0]
    return {"target": COMMAND, **(CATALOGUE | graphs.SCHEDULES)[kind]}


@dataclass(frozen=True)
class Fault:
    """`size` counts points for crash and fail; for other faults it is seconds."""

    at: float
    kind: str
    node: int = 0
    size: float = 0.0


@dataclass(frozen=True)
class Action:
    """An action of a user."""

    at: float
    what: str
    schedule: str
    detail: str = ""


@dataclass(frozen=True)
class Script:
    """A world; the same script produces the same history, to the byte."""

    seed: int
    nodes: int = 3
    seconds: float = 120.0
    slots: int = 6
    """how many runs a node has at work at once"""
    schedules: tuple[str, ...] = tuple(CATALOGUE)
    faults: tuple[Fault, ...] = ()
    actions: tuple[Action, ...] = ()

    def chance(self, *what: object) -> Random:
        """A random generator for one purpose, independent of all others."""
        return Random(f"{self.seed} {what}")

    def drift(self, number: int) -> float:
        """By which fraction the monotonic clock of a node is too fast."""
        return round(self.chance("drift", number).uniform(-0.01, 0.01), 4)

    def skew(self, number: int) -> float:
        """By how many seconds the clock of a node is wrong at its start."""
        return round(self.chance("skew", number).uniform(-3600, 3600), 1)


def draw(seed: int) -> Script:
    """The world for a seed."""
    chance = Random(f"world {seed}")
    seconds = round(chance.uniform(60.0, LONGEST_STORM), 1)
    nodes = chance.choice((2, 3, 3, 3, 4))
    names = tuple(name for name in CATALOGUE if chance.random() < 0.6) or ("skip",)
    faults = [_fault(chance, seconds, nodes) for _ in range(int(seconds * chance.uniform(0, 0.25)))]
    actions = [_action(chance, seconds, names) for _ in range(chance.randrange(int(seconds / 4)))]
    flows, their_actions = _flows(Random(f"flows {seed}"), seconds)
    crowd = Random(f"crowd {seed}")
    many = crowd.randrange(10, 40) if crowd.random() < 0.4 else 0
    if crowd.random() < 0.4:  # a harder storm
        faults += [_fault(crowd, seconds, nodes) for _ in range(int(seconds * crowd.random()))]
    return Script(
        seed,
        nodes,
        seconds,
        6 + 4 * many,
        (*names, *flows, *(f"{name}-{number}" for number in range(many) for name in CROWDED)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        tuple(sorted(actions + their_actions, key=lambda action: action.at)),
    )


def _flows(chance: Random, seconds: float) -> tuple[tuple[str, ...], list[Action]]:
    """Schedules that start flows, in half of the worlds, and what people do to them."""
    if chance.random() < 0.5:
        return (), []
    names = tuple(name for name in graphs.SCHEDULES if chance.random() < 0.5) or ("diamond",)
    return names, [
        Action(
            round(chance.uniform(1.0, seconds), 2),
            chance.choice(graphs.DOINGS),
            chance.choice(names),
        )
        for _ in range(chance.randrange(int(seconds / 6)))
    ]


def _fault(chance: Random, seconds: float, nodes: int) -> Fault:
    kind = chance.choice(KINDS)
    size: float = chance.randrange(1, 60)
    if kind in ("stop", "deaf", "slow"):
        size = round(chance.choice((chance.uniform(0.1, 4.0), chance.uniform(5.0, 25.0))), 1)
    elif kind == "jump":
        size = round(chance.uniform(-7200, 7200), 1)
    elif kind == "database_jump":
        size = round(chance.choice((chance.uniform(-30, -0.1), chance.uniform(5.0, 90.0))), 1)
    at = round(chance.uniform(1.0, seconds), 2)
    return Fault(at, kind, chance.randrange(nodes), size)


def _action(chance: Random, seconds: float, names: tuple[str, ...]) -> Action:
    at = round(chance.uniform(1.0, seconds), 2)
    what = chance.choice(DOINGS)
    details = CLOSED if what == "close" else PERIODS
    return Action(at, what, chance.choice(names), chance.choice(details))
