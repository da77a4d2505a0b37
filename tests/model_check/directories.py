"""A model of a directory of flows: two nodes of which one attends it under a term, two schedulers
that plan its flows, and people who edit its files. Any process may crash between two steps. Shares
no code with Duebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Model", "Rules", "World"]


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; each may be broken."""

    new_term: bool = True
    """whoever takes a directory over does so under a new term"""
    fenced: bool = True
    """what was read counts only under the term under which it was read"""
    scanned: bool = True
    """nothing is planned before the directory was read under the present term"""
    row_share: bool = True
    """a plan keeps the directory from changing hands until its commit"""


class Row(NamedTuple):
    """The directory in the database."""

    session: int = -1
    term: int = 0
    left: int = 0
    scanned_term: int = 0
    revision: int = 0
    """of its files, as they are in force"""


class Node(NamedTuple):
    session: int = -1
    """-1: it is down"""
    term: int = 0
    """under which it attends, as far as it knows"""
    read: int = -1
    """the files as it read them; -1: it has yet to read or has written that"""


class World(NamedTuple):
    row: Row
    nodes: tuple[Node, ...]
    planning: tuple[int, ...]
    """the revision that each scheduler is about to run; -1: none"""
    version: int
    """of the files"""
    at_takeover: int
    """the version of the files when the present term began"""
    readers: frozenset[tuple[int, int]]
    """term and session of each scan that counted"""
    sessions: int


@dataclass(frozen=True)
class Model:
    rules: Rules = Rules()
    lease: int = 1
    versions: int = 2
    most_sessions: int = 4
    most_terms: int = 4

    @property
    def start(self) -> World:
        nodes = (Node(0), Node(1))
        return World(Row(), nodes, (-1, -1), 0, 0, frozenset(), 2)

    def problem(self, world: World) -> str | None:
        terms = [term for term, _ in world.readers]
        if len(set(terms)) < len(terms):
            return "24a: two nodes read a directory in one term"
        return None

    def is_done(self, world: World) -> bool:
        """The files are in force as they are."""
        return world.row.revision == world.version

    def is_excused(self, world: World) -> bool:
        """The model has only so many sessions and terms."""
        out = world.sessions >= self.most_sessions
        nobody = out and all(node.session == -1 for node in world.nodes)
        return nobody or world.row.term >= self.most_terms

    def moves(self, world: World) -> Iterator[tuple[str, World | str]]:
        row = world.row
        if row.left:
            yield "time passes", world._replace(row=row._replace(left=row.left - 1))
        if world.version < self.versions:
            yield "somebody edits a file", world._replace(version=world.version + 1)
        for number in range(2):
            yield from self._node(world, number)
            yield from self._plan(world, number)

    def _is_held(self, world: World) -> bool:
        """By a plan that is under way: nobody changes the row before its commit."""
        return self.rules.row_share and any(revision >= 0 for revision in world.planning)

    def _is_attended(self, world: World) -> bool:
        row = world.row
        lives = any(node.session == row.session for node in world.nodes)
        return row.session >= 0 and lives and row.left > 0

    def _node(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        node, who = world.nodes[number], f"node {number}"
        if node.session == -1:
            if world.sessions < self.most_sessions:
                after = self._put(world, number, Node(world.sessions))
                yield f"{who} starts", after._replace(sessions=world.sessions + 1)
            return
        yield f"{who} crashes", self._put(world, number, Node())
        if not self._is_held(world):
            yield from self._take(world, number)
            yield from self._write(world, number)
        if node.term and node.read < 0:
            read = node._replace(read=world.version)
            yield f"{who} reads version {world.version}", self._put(world, number, read)

    def _take(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        node, row = world.nodes[number], world.row
        is_mine = row.session == node.session and row.left > 0
        if self._is_attended(world) and not is_mine:
            return
        if is_mine:
            term = row.term
        elif row.term >= self.most_terms:
            return
        else:
            term = row.term + (1 if self.rules.new_term or not row.term else 0)
        after = self._put(world, number, Node(node.session, term, node.read if is_mine else -1))
        taken = row._replace(session=node.session, term=term, left=self.lease)
        at = world.at_takeover if is_mine else world.version
        yield f"node {number} attends in term {term}", after._replace(row=taken, at_takeover=at)

    def _write(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        """The flows become equal to the files that it read, and the scan counts."""
        node, row = world.nodes[number], world.row
        if node.read < 0:
            return
        done = self._put(world, number, node._replace(read=-1))
        is_current = (row.session, row.term) == (node.session, node.term) and row.left > 0
        if self.rules.fenced and not is_current:
            yield f"node {number} is refused", self._put(world, number, Node(node.session))
            return
        scanned = row._replace(scanned_term=row.term, revision=node.read)
        readers = world.readers | {(row.term, node.session)}
        after = done._replace(row=scanned, readers=frozenset(readers))
        yield f"node {number} writes version {node.read}", after

    def _plan(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        revision, who, row = world.planning[number], f"scheduler {number}", world.row
        if revision < 0:
            is_read = row.scanned_term == row.term or not self.rules.scanned
            if self._is_attended(world) and is_read:
                yield f"{who} takes a due time", self._planning(world, number, row.revision)
            return
        yield f"{who} crashes", self._planning(world, number, -1)
        if revision < world.at_takeover:
            told = "24a: a revision runs that was changed before the directory was attended"
            yield f"{who} commits", told
            return
        yield f"{who} commits", self._planning(world, number, -1)

    @staticmethod
    def _put(world: World, number: int, node: Node) -> World:
        return world._replace(nodes=_put(world.nodes, number, node))

    @staticmethod
    def _planning(world: World, number: int, revision: int) -> World:
        return world._replace(planning=_put(world.planning, number, revision))


def _put(items: tuple[Any, ...], place: int, item: object) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])
