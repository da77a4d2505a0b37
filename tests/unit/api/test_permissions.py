"""Who may do what: every decision is a value or a refusal that says why."""

from __future__ import annotations

import pytest

from duebook.api.permissions import (
    Caller,
    choose_namespace,
    refuse_role,
    refuse_target,
)
from duebook.errors import Forbidden, Invalid, NotFound
from duebook.model.access import EVERYWHERE, Role
from duebook.model.target import load_target


def caller(role: Role = Role.OPERATOR, *namespaces: str) -> Caller:
    return Caller("id", "ci", role, namespaces or (EVERYWHERE,))


@pytest.mark.parametrize("has", Role)
@pytest.mark.parametrize("needs", Role)
def test_a_role_may_do_what_those_below_it_may(has: Role, needs: Role) -> None:
    if has < needs:
        with pytest.raises(Forbidden, match=f'token "ci" is {has}; this needs {needs}'):
            refuse_role(caller(has), needs, everywhere=False)
    else:
        refuse_role(caller(has), needs, everywhere=False)


def test_what_concerns_all_namespaces_needs_a_token_for_all() -> None:
    refuse_role(caller(Role.ADMIN), Role.ADMIN, everywhere=True)
    with pytest.raises(Forbidden, match="for shop; this needs a token for all"):
        refuse_role(caller(Role.ADMIN, "shop"), Role.ADMIN, everywhere=True)


def test_the_namespace_is_the_one_asked_for_or_the_first_that_is_seen() -> None:
    assert choose_namespace(caller(), None) == "default"
    assert choose_namespace(caller(Role.VIEWER, "shop", "mail"), None) == "shop"
    assert choose_namespace(caller(Role.VIEWER, "shop", "default"), None) == "default"
    assert choose_namespace(caller(Role.VIEWER, "shop", "mail"), "mail") == "mail"


def test_a_namespace_that_is_not_seen_does_not_exist() -> None:
    with pytest.raises(NotFound):
        choose_namespace(caller(Role.ADMIN, "shop"), "default")
    with pytest.raises(Invalid):
        choose_namespace(caller(), "../x")


def known() -> set[str]:
    return {"digest"}


@pytest.mark.parametrize("form", ["digest", {"task": "digest"}, {"nonsense": 1}, 7, None])
def test_operators_name_tasks_that_are_known(form: object) -> None:
    refuse_target(caller(), form, known)


@pytest.mark.parametrize(
    "form", [{"command": ["id"]}, {"shell": "id"}, {"http": {"url": "https://example.com"}}]
)
def test_only_admins_define_commands_and_requests(form: object) -> None:
    refuse_target(caller(Role.ADMIN), form, known)
    refuse_target(caller(), form, known, current=load_target(form))
    with pytest.raises(Forbidden, match="only admin defines"):
        refuse_target(caller(), form, known)
    with pytest.raises(Forbidden):
        refuse_target(caller(), form, known, current=load_target({"command": ["true"]}))


def test_operators_name_flows_that_exist() -> None:
    refuse_target(caller(), {"flow": "etl"}, known, has_flow=lambda name: name == "etl")
    refuse_target(caller(Role.ADMIN), {"flow": "later"}, known)
    with pytest.raises(Forbidden, match='flow "later" does not exist'):
        refuse_target(caller(), {"flow": "later"}, known, has_flow=lambda name: name == "etl")


def test_only_admins_name_tasks_that_nobody_knows() -> None:
    refuse_target(caller(Role.ADMIN), "later", known)
    with pytest.raises(Forbidden, match='"later" is known to no live worker'):
        refuse_target(caller(), "later", known)
