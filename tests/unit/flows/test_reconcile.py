"""Files against known flows: what is added, changed, moved, deleted, and what stays."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from duebook.flows.build import build
from duebook.flows.files import default_name
from duebook.flows.reconcile import Found, Kept, Reconciled, reconcile
from tests.unit.flows.registry import MemoryRegistry


def file(place: str, text: str) -> Found:
    built = build(text, place, default_name(Path(place)))
    digest = sha256(text.encode()).hexdigest()
    return Found(place, digest, text, built.flows, built.names, built.problems)


def files(**texts: str) -> dict[str, Found]:
    return {f"d/{name}.yaml": file(f"d/{name}.yaml", text) for name, text in texts.items()}


class Books(MemoryRegistry):
    def see(self, unknown: tuple[str, ...] = (), /, **texts: str) -> list[tuple[str, str]]:
        found = reconcile(files(**texts), self.kept(), {"d"}, unknown)
        self.apply(found, {"d"})
        assert reconcile(files(**texts), self.kept(), {"d"}, unknown).changes == ()
        return self.kinds()


ONE, TWO, BROKEN = "steps: [one]", "steps: [two]", "steps: one"


def test_files_are_added_changed_and_deleted() -> None:
    books = Books()
    assert books.see(a=ONE, b=ONE) == [("add", "a"), ("add", "b")]
    assert books.see(a=TWO, b=ONE) == [("change", "a")]
    assert books.see(b=ONE) == [("delete", "a")]
    assert books.see() == [("delete", "b")]


def test_a_file_that_is_renamed_is_another_flow_unless_it_says_its_name() -> None:
    books = Books()
    books.see(a=ONE, b="name: x\nsteps: [b]")
    assert books.see(c=ONE, d="name: x\nsteps: [b]") == [
        ("delete", "a"),
        ("move", "x"),
        ("add", "c"),
    ]
    assert books.flows["x"].place == "d/d.yaml"


def test_a_file_that_is_renamed_and_changed_keeps_its_flow_by_name() -> None:
    books = Books()
    books.see(a="name: x\nsteps: [a]")
    assert books.see(b="name: x\nsteps: [b]") == [("change", "x")]


def test_another_name_in_the_file_is_another_flow() -> None:
    books = Books()
    books.see(a="name: x\nsteps: [a]")
    assert books.see(a="name: y\nsteps: [a]") == [("delete", "x"), ("add", "y")]


def test_a_broken_file_leaves_its_last_good_revision_in_force() -> None:
    books = Books()
    books.see(a=ONE)
    assert books.see(a=BROKEN) == []
    assert books.flows["a"].digest == files(a=ONE)["d/a.yaml"].digest
    assert [p.line for p in books.problems["d/a.yaml"]] == [1]
    assert books.see(a=TWO) == [("change", "a")]
    assert books.problems == {}


def test_a_new_file_that_is_broken_is_a_problem_and_no_flow() -> None:
    books = Books()
    assert books.see(a=BROKEN) == []
    assert (books.flows, list(books.problems)) == ({}, ["d/a.yaml"])
    assert books.see() == []
    assert books.problems == {}


def test_a_file_that_is_renamed_and_broken_keeps_its_flow_by_name() -> None:
    books = Books()
    books.see(a="name: x\nsteps: [a]")
    assert books.see(b="name: x\nsteps: b") == [("move", "x")]
    assert books.see(b="name: x\nsteps: [b]") == [("change", "x")]


def test_who_has_a_name_keeps_it() -> None:
    books = Books()
    books.see(b="name: x\nsteps: [b]")
    assert books.see(a="name: x\nsteps: [a]", b="name: x\nsteps: [b]") == []
    [problem] = books.problems["d/a.yaml"]
    assert str(problem) == (
        'd/a.yaml:1:1: flow "x" is already defined in d/b.yaml; rename one of them'
    )
    assert books.see(a="name: x\nsteps: [a]") == [("change", "x")]


def test_of_two_new_files_with_one_name_the_first_gets_it() -> None:
    books = Books()
    assert books.see(a="name: x\nsteps: [a]", b="name: x\nsteps: [b]") == [("add", "x")]
    assert books.flows["x"].place == "d/a.yaml"


def test_a_broken_file_keeps_its_name_too() -> None:
    books = Books()
    books.see(b="name: x\nsteps: [b]")
    assert books.see(a="name: x\nsteps: [a]", b="name: x\nsteps: b") == []
    assert set(books.problems) == {"d/a.yaml", "d/b.yaml"}


def test_a_file_that_takes_the_name_of_another_stays_what_it_was() -> None:
    books = Books()
    books.see(a="name: x\nsteps: [a]", b="name: y\nsteps: [b]")
    assert books.see(a="name: y\nsteps: [a]", b="name: y\nsteps: [b]") == []
    assert set(books.flows) == {"x", "y"}


def test_two_files_can_swap_their_names() -> None:
    books = Books()
    books.see(a="name: x\nsteps: [a]", b="name: y\nsteps: [b]")
    assert books.see(a="name: y\nsteps: [a]", b="name: x\nsteps: [b]") == [
        ("change", "x"),
        ("change", "y"),
    ]


def test_the_flows_of_a_file_come_and_go_together() -> None:
    books = Books()
    both = "steps: [call: part]\n---\nname: part\nsteps: [b]"
    assert books.see(a=both) == [("add", "a"), ("add", "a.part")]
    assert books.see(a=ONE) == [("delete", "a.part"), ("change", "a")]


def test_a_place_where_somebody_writes_stays_as_it_is() -> None:
    books = Books()
    books.see(a=ONE)
    assert books.see(("d/a.yaml",)) == []
    assert books.see() == [("delete", "a")]


def test_nothing_is_said_about_other_directories() -> None:
    kept = [Kept("x", "other/x.yaml", "1"), Kept("y", "d/y.yaml", "2")]
    assert reconcile({}, kept, set()) == Reconciled((), {}, {})
    found = reconcile(files(x=ONE), kept, {"d"})
    assert [(change.kind, change.name) for change in found.changes] == [("delete", "y")]
    assert "is already defined in other/x.yaml" in str(found.problems["d/x.yaml"][0])


TEXTS = st.sampled_from(
    [
        *(ONE, TWO, BROKEN, "name: x\nsteps: [a]", "name: y\nsteps: [a]", "name: x\nsteps: a"),
        *("name: x\nsteps: [b]", "steps: [call: p]\n---\nname: p\nsteps: [a]"),
    ]
)
DIRECTORIES = st.dictionaries(st.sampled_from("abcd"), TEXTS, max_size=4)


@given(st.lists(DIRECTORIES, max_size=6))
def test_after_any_history_the_flows_are_those_of_the_files(history: list[dict[str, str]]) -> None:
    books = Books()
    for directory in history:
        books.see((), **directory)
        places = files(**directory)
        for name, kept in books.flows.items():
            assert kept.place in places
            at = places[kept.place]
            assert kept.place in books.problems or (name, kept.digest) in {
                (flow.name, at.digest) for flow in at.flows
            }
        for place, at in places.items():
            shown = {flow.name for flow in at.flows} <= set(books.flows)
            assert place in books.problems or shown
