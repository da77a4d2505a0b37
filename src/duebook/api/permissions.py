"""What callers may do through the API: pure decisions about a caller and a role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Forbidden, NotFound
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import EVERYWHERE, Role
from duebook.model.serving import Serving, serving_of

if TYPE_CHECKING:
    from duebook.model.access import AccessToken

__all__ = [
    "Caller",
    "choose_namespace",
    "refuse_role",
]


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: a token that was checked."""

    id: str
    name: str
    role: Role
    namespaces: tuple[str, ...] = (EVERYWHERE,)

    @classmethod
    def of(cls, token: AccessToken) -> Caller:
        return cls(token.id, token.name, token.role, token.namespaces)

    @property
    def by(self) -> str:
        """The name of this caller in the database."""
        return f"token:{self.name}"

    @property
    def everywhere(self) -> bool:
        return EVERYWHERE in self.namespaces

    @property
    def seen(self) -> Serving:
        """The namespaces that it may see."""
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
    """The namespace of a request: the given one, `default`, or the caller's first.

    Raises NotFound for one that the caller may not see, which does not reveal whether it exists.
    """
    if asked is None:
        return "default" if caller.sees("default") else caller.namespaces[0]
    name = check_name(asked, "namespace")
    if not caller.sees(name):
        own = ", ".join(caller.namespaces)
        raise NotFound(
            f'namespace "{name}" does not exist, or your token does not include it; yours: {own}'
        )
    return name
