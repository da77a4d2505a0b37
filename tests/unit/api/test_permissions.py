"""Who may do what: every decision is a value or a refusal that says why."""

from __future__ import annotations

import pytest

from duebook.api.permissions import (
    Caller,
    choose_namespace,
    refuse_role,
)
from duebook.errors import Forbidden, Invalid, NotFound
from duebook.model.access import EVERYWHERE, Role


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
