"""Which namespaces a node serves: what it is told, its program's, the named one, or all."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.serving import (
    ALL,
    NONE,
    Serving,
    choose_serving,
    read_serving,
    serving_of,
    unserved,
)


@pytest.mark.parametrize(
    ("given", "program", "named", "served"),
    [
        (None, False, False, ALL),  # duebook up
        ("", False, False, ALL),
        (None, False, True, Serving(("staging",))),  # duebook --namespace staging up
        (None, True, False, Serving(("staging",))),  # up --app, worker, book.run()
        (None, True, True, Serving(("staging",))),
        ("a,b", False, False, Serving(("a", "b"))),
        ("a,b", False, True, Serving(("a", "b"))),
        ("a,b", True, True, Serving(("a", "b"))),
        (["b", "a"], True, True, Serving(("a", "b"))),
        ("*", True, True, ALL),
        ("all", False, True, ALL),
    ],
)
def test_what_a_node_serves(given: Any, program: bool, named: bool, served: Serving) -> None:
    assert choose_serving(given, "staging", program=program, named=named) == served


@pytest.mark.parametrize(
    ("given", "served"),
    [
        ("shop", Serving(("shop",))),
        (" shop , billing ", Serving(("billing", "shop"))),
        ("shop,shop", Serving(("shop",))),
        (("shop",), Serving(("shop",))),
        ("shop,*", ALL),
        (["*"], ALL),
    ],
)
def test_names_are_given_as_a_list_or_with_commas(given: Any, served: Serving) -> None:
    assert read_serving(given) == served


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("Prod", 'serve: namespace "Prod"'),
        ("a,,b", 'serve: namespace ""'),
        ("a b", 'serve: namespace "a b"'),
        ([], "serve is empty"),
        (",", "serve is empty"),
        (7, "serve 7 is not a list"),
        ([7], "serve: namespace 7: it must be text"),
    ],
)
def test_a_name_that_no_namespace_has_is_refused(given: Any, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_serving(given)
    assert words in str(caught.value)


def test_all_includes_namespaces_that_do_not_exist_yet() -> None:
    assert "anything" in ALL
    assert "shop" in Serving(("shop",))
    assert "default" not in Serving(("shop",))
    assert "default" not in NONE


def test_the_json_form_is_read_back() -> None:
    for serving in (ALL, NONE, Serving(("a", "b"))):
        assert serving_of(serving.to_json()) == serving
    assert ALL.to_json() == ["*"]


def test_it_reads_as_words() -> None:
    assert str(ALL) == "all namespaces"
    assert str(Serving(("shop",))) == "namespace shop"
    assert str(Serving(("a", "b"))) == "namespaces a, b"
    assert str(Serving(("a", "b")).seen_by(Serving(("b", "c")))) == "namespace b"
    assert str(ALL.seen_by(NONE)) == "all namespaces"
    assert str(NONE) == "no namespace"


def test_a_namespace_is_unserved_where_workers_live_and_none_serves_it() -> None:
    assert unserved("prod", []) is None
    assert unserved("prod", [Serving(("staging",)), ALL]) is None
    told = 'no live node serves namespace "prod"; start one with --serve prod'
    assert unserved("prod", [Serving(("staging",))]) == told
