"""The stage of an attack: a real node with work that is due every second, and those who attack."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duebook.book.tokens import Tokens
from tests.attack.commands import Word, as_ordinary_user
from tests.attack.readers import node_numbers
from tests.support.nodes import open_world

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.nodes import NodeProcess, World

__all__ = ["Stage", "open_stage"]

COUNTED: Final = ("lost", "stalls", "late")
"""What no attack may make more: lost sessions, stalls of renewals, runs late by more than 1 s."""


@dataclass(frozen=True)
class Stage:
    world: World
    node: NodeProcess
    url: str
    tokens: Mapping[str, str]
    """role -> a token of all namespaces; `stranger` is an operator of the namespace `elsewhere`"""
    word: Word
    """what the secrets in the environment of the node begin with"""

    def numbers(self) -> dict[str, float]:
        return node_numbers(self.url, self.tokens["admin"])

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """What the node counted meanwhile stands in the dictionary afterwards."""
        before, began = self.numbers(), time.monotonic()
        found: dict[str, float] = {}
        yield found
        after = self.numbers()
        found |= {name: after[name] - before[name] for name in (*COUNTED, "started")}
        found["seconds"] = time.monotonic() - began


@contextmanager
def open_stage(folder: Path, url: str | None = None) -> Iterator[Stage]:
    """A node on the database at `url`, or on a file in the folder."""
    with open_world(folder, url) as world:
        tokens = Tokens(world.book.store)
        made = {
            role: tokens.create(f"attack-{role}", role, "*")[1]
            for role in ("admin", "operator", "viewer")
        }
        made["stranger"] = tokens.create("attack-stranger", "operator", "elsewhere")[1]
        world.add("on-time", "true", trigger={"cron": "* * * * * *"})
        word = Word()
        argv = as_ordinary_user(world.cli_argv("up", "--port", "0"))
        node = world._begin(argv, word.env).wait_ready()
        yield Stage(world, node, node.address, made, word)
        code = node.end()
        assert code == 0, node.log
