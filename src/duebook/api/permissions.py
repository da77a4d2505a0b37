"""Who may do what through the API: pure decisions about a caller, a role and a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duebook.errors import Forbidden, Invalid, NotFound, shorten
from duebook.ids import check_name
from duebook.model.access import EVERYWHERE, Role
from duebook.model.flow_target import FlowTarget
from duebook.model.serving import Serving, serving_of
from duebook.model.target import TaskTarget, load_target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from duebook.model.access import AccessToken
    from duebook.model.target import Target

__all__ = [
    "Caller",
    "choose_namespace",
    "refuse_role",
    "refuse_target",
]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a token that was checked."""

    id: str
    name: str
    role: Role
    namespaces: tuple[str, ...] = (EVERYWHERE,)

    @classmethod
    def of(cls, token: AccessToken) -> Caller:
        return cls(token.id, token.name, token.role, token.namespaces)

    @property
    def by(self) -> str:
        """How the books name this caller."""
        return f"token:{self.name}"

    @property
    def everywhere(self) -> bool:
        return EVERYWHERE in self.namespaces

    @property
    def seen(self) -> Serving:
        """The namespaces whose books it may see."""
        return serving_of(self.namespaces)

    def sees(self, namespace: str) -> bool:
        return self.everywhere or namespace in self.namespaces


def refuse_role(caller: Caller, needed: Role, everywhere: bool) -> None:
    """Raises Forbidden unless the caller has the role; `everywhere`: over all namespaces."""
    if caller.role < needed:
        raise Forbidden(f'token "{caller.name}" is {caller.role}; this needs {needed}')
    if everywhere and not caller.everywhere:
        raise Forbidden(
            f'token "{caller.name}" is for {", ".join(caller.namespaces)}; '
            "this needs a token for all namespaces"
        )


def choose_namespace(caller: Caller, asked: str | None) -> str:
    """The namespace of a request: the one asked for, `default`, or the caller's first.

    Raises NotFound for one that the caller does not see: nobody learns whether it exists.
    """
    if asked is None:
        return "default" if caller.sees("default") else caller.namespaces[0]
    name = check_name(asked, "namespace")
    if not caller.sees(name):
        own = ", ".join(caller.namespaces)
        raise NotFound(f'namespace "{name}" does not exist, or is not yours; yours: {own}')
    return name


def refuse_target(
    caller: Caller,
    form: Any,
    known: Callable[[], Collection[str]],
    current: Target | None = None,
    has_flow: Callable[[str], bool] = lambda _: False,
) -> None:
    """Defining what runs is more than saying when: raises Forbidden for what only admins define.

    Others may name tasks that somebody registered, which `known` tells, and flows that exist, and
    leave the `current` target as it is. A form that is no target is left to whoever reads the
    definition.
    """
    if caller.role >= Role.ADMIN:
        return
    try:
        target = load_target(form)
    except Invalid:
        return
    if target == current:
        return
    if isinstance(target, FlowTarget):
        if not has_flow(target.name):
            raise Forbidden(f'flow "{target.name}" does not exist; only admin names such flows')
        return
    if not isinstance(target, TaskTarget):
        raise Forbidden(
            f'token "{caller.name}" is {caller.role}; '
            "only admin defines commands, requests and events"
        )
    if target.name not in known():
        raise Forbidden(
            f'task "{shorten(target.name)}" is known to no live worker; only admin names such tasks'
        )
