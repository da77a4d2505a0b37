"""Which namespaces a node serves: it executes only their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.errors import Invalid, quoted
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import EVERYWHERE
from duebook.model.celery_target import CELERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "ALL",
    "NONE",
    "Serving",
    "StrandedTask",
    "choose_serving",
    "read_serving",
    "serving_of",
    "unserved",
]

_ALL_WORDS: Final = (EVERYWHERE, "all")


@dataclass(frozen=True, slots=True)
class Serving:
    """Some namespaces by name, or all of them, including those that do not exist yet."""

    names: tuple[str, ...] | None = None
    """None: all"""

    def __contains__(self, namespace: object) -> bool:
        return self.names is None or namespace in self.names

    def __str__(self) -> str:
        if self.names is None:
            return "all namespaces"
        if not self.names:
            return "no namespace"
        return f"namespace{'' if len(self.names) == 1 else 's'} {', '.join(self.names)}"

    @property
    def listed(self) -> list[str] | None:
        """The names; None: all."""
        return None if self.names is None else list(self.names)

    def seen_by(self, of: Serving) -> Serving:
        """Without the names of namespaces that a viewer of `of` cannot see."""
        if self.names is None:
            return self
        return Serving(tuple(name for name in self.names if name in of))

    def to_json(self) -> list[str]:
        return [EVERYWHERE] if self.names is None else list(self.names)


class StrandedTask(NamedTuple):
    """A task that runs wait for, and that no live worker of their namespace knows."""

    namespace: str
    task: str
    elsewhere: bool
    """whether a worker that does not serve the namespace knows it"""

    def __str__(self) -> str:
        of = f' of namespace "{self.namespace}"' if self.elsewhere else ""
        if self.task == CELERY:
            who = (
                "only workers of other namespaces have" if self.elsewhere else "no live worker has"
            )
            return f"runs{of} are waiting for a Celery app, which {who}; start one with --celery"
        whose = f'runs{of} are waiting for task "{self.task}"'
        if self.elsewhere:
            return f"{whose}, which only workers of other namespaces know"
        return f"{whose}, which no live worker knows"


ALL: Final = Serving()
NONE: Final = Serving(())


def serving_of(names: Iterable[str]) -> Serving:
    """From a JSON list."""
    found = tuple(names)
    return ALL if EVERYWHERE in found else Serving(found)


def unserved(namespace: str, workers: Sequence[Serving]) -> str | None:
    """The problem that no live worker serves a namespace; None if one does, or none is live."""
    if not workers or any(namespace in serving for serving in workers):
        return None
    return f'no live node serves namespace "{namespace}"; start one with --serve {namespace}'


def read_serving(given: str | Sequence[str], what: str = "serve") -> Serving:
    """Parse names given by a person: a list, or a text with commas; `*` and `all` mean all.

    Raises Invalid for names that no namespace can have.
    """
    if not isinstance(given, str | list | tuple | set | frozenset):
        raise Invalid(f"{what} {quoted(given)} is not a list of namespaces")
    words = given.split(",") if isinstance(given, str) else list(given)
    names = [word.strip() if isinstance(word, str) else word for word in words]
    if not any(names):
        raise Invalid(f'{what} is empty; list namespaces, such as "shop,billing", or "*"')
    if any(name in _ALL_WORDS for name in names):
        return ALL
    return Serving(tuple(sorted({check_name(name, f"{what}: namespace") for name in names})))


def choose_serving(
    given: str | Sequence[str] | None, namespace: str, *, program: bool, named: bool
) -> Serving:
    """What a node serves: the given names, if any.

    Otherwise a node with a program serves the namespace of its book, and one without the namespace
    that was `named`, or all.
    """
    if given is not None and given != "":
        return read_serving(given)
    return Serving((namespace,)) if program or named else ALL
