"""Directories and flows: half-written files, renames, storms; on a clock of the test's own."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Conflict, Invalid
from duebook.flows import sync
from duebook.flows.build import build
from duebook.flows.sync import PATIENCE, RESCAN, STILL, FlowSync
from duebook.flows.watcher import Watcher, _directories
from tests.support.waiting import eventually
from tests.unit.flows.registry import MemoryRegistry

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.flows.build import Built
    from duebook.flows.reconcile import Reconciled
    from duebook.flows.sync import Synced

ONE, TWO = "steps: [one]", "steps: [two]"


class World:
    """A directory, a registry, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir()
        self.registry = MemoryRegistry()
        self.sync = FlowSync([root], self.registry)
        self.now = 1_000.0

    def step(self, after: float = 0.0) -> Synced:
        self.now += after
        return self.sync.step(self.now)

    def rest(self) -> list[tuple[str, str]]:
        """What changes until everything is still."""
        while self.step().wait < RESCAN:
            self.now += STILL
        return self.registry.kinds()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "flows")


def test_files_become_flows_once_they_stand_still(world: World) -> None:
    world.write("a.yaml", ONE)
    first = world.step()
    assert (first.changes, first.wait) == ((), STILL)
    second = world.step(STILL)
    assert [change.kind for change in second.changes] == ["add"]
    assert second.wait == RESCAN
    assert world.registry.definitions["a"].steps[0].name == "step-1"


def test_what_does_not_stay_is_never_built(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    built = list[str]()

    def note(text: str, place: str, name: str) -> Built:
        built.append(name)
        for later in world.root.glob("gone-*.yaml"):
            later.unlink()
        return build(text, place, name)

    monkeypatch.setattr(sync, "build", note)
    for number in range(5):
        world.write(f"brief-{number}.yaml", ONE)
        world.write(f"gone-{number}.yaml", ONE)
    world.write("a.yaml", ONE)
    world.step()
    for number in range(5):
        (world.root / f"brief-{number}.yaml").unlink()
    assert world.step(STILL).wait == STILL
    assert world.rest() == [("add", "a")]
    assert built == ["a"]


def test_a_half_written_file_is_waited_for(world: World) -> None:
    world.write("a.yaml", "name: a\nsteps: [one, two]")
    world.rest()
    world.write("a.yaml", "name: a\nsteps: [one]")
    world.step()
    world.write("a.yaml", "name: a\nsteps: [one, two, three]")
    assert world.step(STILL).changes == ()
    assert world.rest() == [("change", "a")]
    assert len(world.registry.definitions["a"].steps) == 3


def test_a_file_that_is_away_for_a_moment_is_not_deleted(world: World) -> None:
    world.write("a.yaml", ONE)
    world.rest()
    (world.root / "a.yaml").rename(world.root / "a.yaml~")
    assert world.step(STILL / 2).changes == ()
    world.write("a.yaml", TWO)
    assert world.rest() == [("change", "a")]


def test_a_rename_is_no_deletion_although_its_new_file_is_still_written(world: World) -> None:
    world.write("a.yaml", "name: x\nsteps: [one]")
    world.rest()
    (world.root / "a.yaml").rename(world.root / "b.yaml")
    world.step()
    for size in range(5):
        world.write("b.yaml", f"name: x\nsteps: [one]\n# {size}")
        world.step(STILL)
    assert world.rest() == [("change", "x")]


def test_what_never_rests_holds_up_deletions_only_for_a_while(world: World) -> None:
    world.write("a.yaml", ONE)
    world.rest()
    (world.root / "a.yaml").unlink()
    began = world.now
    while "a" in world.registry.flows:
        world.write("b.yaml", f"# {world.now}")
        world.step(STILL / 2)
        assert world.now - began < 2 * PATIENCE
    assert world.now - began >= PATIENCE


def test_a_node_that_begins_deletes_nothing_that_is_there(world: World) -> None:
    world.write("a.yaml", ONE)
    world.rest()
    later = FlowSync([world.root], world.registry)
    for moment in (5_000.0, 5_000.0 + STILL):
        assert later.step(moment).changes == ()
    assert set(world.registry.flows) == {"a"}


def test_what_changed_while_no_node_was_there_is_found(world: World) -> None:
    world.write("a.yaml", ONE)
    world.write("b.yaml", ONE)
    world.rest()
    world.write("a.yaml", TWO)
    (world.root / "b.yaml").unlink()
    world.sync = FlowSync([world.root], world.registry)
    assert sorted(world.rest()) == [("change", "a"), ("delete", "b")]


def test_a_directory_that_is_away_deletes_nothing(world: World) -> None:
    world.write("a.yaml", ONE)
    world.rest()
    shutil.move(world.root, world.root.parent / "away")
    told = world.step(RESCAN)
    assert [str(problem) for problem in told.problems] == [
        "flows: the directory cannot be read: No such file or directory; its flows stay unchanged"
    ]
    assert set(world.registry.flows) == {"a"}
    shutil.move(world.root.parent / "away", world.root)
    assert world.rest() == []


def test_a_link_that_leaves_the_directory_is_a_problem(world: World, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(ONE)
    (world.root / "a.yaml").symlink_to(tmp_path / "secret.yaml")
    assert world.rest() == []
    [problem] = world.registry.problems["flows/a.yaml"]
    assert (
        str(problem)
        == "flows/a.yaml: it is a link to a place outside its directory; copy the file there"
    )


def test_a_name_that_is_no_text_is_a_problem_and_holds_nothing_up(world: World) -> None:
    world.write("a.yaml", ONE)
    name = os.fsdecode(b"b\xff.yaml")
    world.write(name, "name: b\n" + TWO)
    assert world.rest() == [("add", "a")]
    [problem] = world.registry.problems["flows/b\N{REPLACEMENT CHARACTER}.yaml"]
    assert str(problem).endswith(".yaml: its name is not valid UTF-8; rename it")
    (world.root / name).rename(world.root / "b.yaml")
    assert world.rest() == [("add", "b")]
    assert world.registry.problems == {}


def test_a_flow_whose_file_becomes_a_link_elsewhere_stays(world: World, tmp_path: Path) -> None:
    world.write("a.yaml", ONE)
    world.rest()
    (world.root / "a.yaml").unlink()
    (world.root / "a.yaml").symlink_to(tmp_path)
    assert world.rest() == []
    assert set(world.registry.flows) == {"a"}


def test_several_directories_are_looked_at_each_by_itself(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
        (root / f"{root.name}.yaml").write_text(ONE)
    registry = MemoryRegistry()
    sync = FlowSync(roots, registry)
    sync.step(0)
    sync.step(STILL)
    assert {kept.place for kept in registry.kept()} == {"one/one.yaml", "two/two.yaml"}
    only = FlowSync(roots[:1], registry)
    only.step(0)
    assert only.step(STILL).changes == ()


def test_two_directories_with_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="have the same name; rename one"):
        FlowSync([tmp_path / "a" / "flows", tmp_path / "b" / "flows"], MemoryRegistry())


def test_nodes_on_the_same_directory_agree(world: World) -> None:
    other = FlowSync([world.root], world.registry)
    world.write("a.yaml", ONE)
    for _ in range(3):
        world.step(STILL)
        other.step(world.now)
    assert world.registry.kinds() == [("add", "a")]


class Quick(MemoryRegistry):
    """A registry into which somebody else writes first, once."""

    def __init__(self) -> None:
        super().__init__()
        self.conflicts = 1

    def apply(self, found: Reconciled, roots: object) -> None:
        if found.changes and self.conflicts:
            self.conflicts -= 1
            raise Conflict("somebody was quicker")
        super().apply(found, roots)  # type: ignore[arg-type]


def test_a_node_that_was_too_slow_looks_again(world: World) -> None:
    world.registry = Quick()
    world.sync = FlowSync([world.root], world.registry)
    world.write("a.yaml", ONE)
    assert world.rest() == [("add", "a")]


def test_a_thousand_files_are_loaded_at_once(world: World) -> None:
    """How long that takes is measured by bench.flows."""
    steps = "".join(
        f"  - name: s{n}\n    command: ./work.sh {n} $DAY\n    retry_policy: {{limit: 2}}\n"
        for n in range(4)
    )
    for number in range(1_000):
        world.write(f"f{number}.yaml", f'schedule: "0 2 * * *"\nparams: [DAY: x]\nsteps:\n{steps}')

    world.rest()
    assert len(world.registry.flows) == 1_000


@pytest.mark.parametrize("most", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_storm_of_files_ends_with_flows_equal_to_files(world: World, most: int) -> None:
    done = threading.Event()

    def storm() -> None:
        for number in range(most):
            path = world.root / f"f{number}.yaml"
            path.write_text(f"steps: [echo {number}]")
            match number % 4:
                case 0:
                    path.rename(world.root / f"g{number}.yaml")
                case 1:
                    path.unlink()
                case 2:
                    path.write_text("steps: [again]")
        done.set()

    thread = threading.Thread(target=storm)
    thread.start()
    try:
        while not done.is_set():
            world.step(STILL)
    finally:
        thread.join()
    world.rest()
    files = {path.name.removesuffix(".yaml") for path in world.root.iterdir()}
    assert len(files) == most * 3 // 4
    assert set(world.registry.flows) == files
    texts = {str(flow.steps[0].target) for flow in world.registry.definitions.values()}
    assert "again" in texts
    assert world.registry.problems == {}


def test_a_watcher_hints_at_changes(tmp_path: Path) -> None:
    hints = threading.Event()
    watcher = Watcher([tmp_path], hints.set)
    watcher.start()
    try:
        numbers = iter(range(1_000))

        def changed() -> bool:
            (tmp_path / f"a{next(numbers)}.yaml").write_text(ONE)
            return hints.wait(0.1)

        eventually(changed)
    finally:
        watcher.close()


def test_a_watcher_hints_at_changes_in_new_directories_but_not_behind_links(
    tmp_path: Path,
) -> None:
    root, elsewhere = tmp_path / "flows", tmp_path / "elsewhere"
    for directory in (root, elsewhere):
        directory.mkdir()
    (root / "link").symlink_to(elsewhere)
    (root / "new").mkdir()
    (root / ".git").mkdir()
    assert _directories(root) == [str(root), str(root / "new")]
    hints = threading.Event()
    watcher = Watcher([root], hints.set)
    watcher.start()
    try:
        numbers = iter(range(1_000))

        def changed() -> bool:
            below = root / f"d{next(numbers)}"
            below.mkdir()
            hints.wait(PATIENCE)
            hints.clear()
            (below / "a.yaml").write_text(ONE)
            return hints.wait(PATIENCE)

        eventually(changed)
    finally:
        watcher.close()


def test_a_watcher_of_a_directory_that_is_not_there_ends_all_the_same(tmp_path: Path) -> None:
    watcher = Watcher([tmp_path / "gone"], lambda: None)
    watcher.start()
    watcher.close()
