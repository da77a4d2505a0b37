"""Reads where commands run: in their own container, in that of the run, or in a named one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.commands import container_shell
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, items, text_of
from duebook.flows.values import read_pairs
from duebook.flows.variables import check_value, walk
from duebook.flows.words import CONTAINER
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import read_flag
from duebook.model.flow import Container

if TYPE_CHECKING:
    from duebook.flows.references import Scope

__all__ = ["Inside", "read_container", "read_docker"]

PULLS: Final = {True: "always", False: "never"} | {p: p for p in ("always", "missing", "never")}
_ONE_OPTION: Final = {"platform": "--platform", "network": "--network"}
_CREATING: Final = ("pull_policy", "volumes", "ports", "platform", "network", "keep_container")
"""Keys that only a newly created container can have."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A container, and the shell that it starts text with; none if that is empty."""

    container: Container
    shell: tuple[str, ...] = ()


def read_container(
    section: Section, scope: Scope, default: Inside | None = None, shared: bool = False
) -> Inside | None:
    """The container of a step, or the one of its flow, which its steps share."""
    node = section.get("container")
    if node is None:
        return default
    return section.judge(node, "container", default, _container, section, node, scope, shared)


def _container(section: Section, node: Node, scope: Scope, shared: bool) -> Inside:
    if isinstance(node.value, str):
        return Inside(Container(name=_fixed("container", node, scope)))
    inner = Section(node, section.at("container"), section.problems, CONTAINER)
    for key in ("command", "auto_remove"):
        if (found := inner.get(key)) is not None:
            inner.problem(found, key, f"{key} has no effect in container", "use action: docker.run")
    made = _read(inner, scope, inner.get("exec"))
    shell = inner.get("shell")
    return Inside(
        replace(made, shared=shared and made.image is not None, keeps=made.keeps),
        () if shell is None else container_shell(shell),
    )


def read_docker(section: Section, config: Node, scope: Scope) -> tuple[Inside, Node | None]:
    """Read `type: docker` or `action: docker.run`, with its command, if any."""
    inner = Section(config, section.at("config"), section.problems, CONTAINER)
    options = inner.get("exec")
    if options is not None and isinstance(options.value, str):
        raise Invalid("exec has the options user, working_dir and env; write container_name")
    if options is not None and inner.get("image") is not None:
        raise Invalid("exec has no effect for an image; write the options beside it")
    made = _read(inner, scope, None)
    if options is not None:
        own = Section(options, inner.at("exec"), section.problems, CONTAINER)
        made = replace(made, user=_user(own, scope), cwd=_cwd(own, scope), env=_env(own, scope))
    keeps = not inner.read("auto_remove", read_flag, default=False)
    shell = inner.get("shell")
    inside = () if shell is None else container_shell(shell)
    return Inside(replace(made, keeps=keeps), inside), inner.get("command")


def _read(inner: Section, scope: Scope, entered: Node | None) -> Container:
    image, name = inner.get("image"), inner.get("name")
    if image is not None and entered is not None:
        raise Invalid("container has both image and exec; keep one")
    if image is None and entered is None and name is None:
        raise Invalid("container has no image; add `image: NAME`, or `exec` for one that runs")
    if image is None:
        for key in _CREATING:
            if (found := inner.get(key)) is not None:
                told = f"{key} has no effect for a container that is running"
                inner.problem(found, key, told, "use image")
        named = entered or name
        assert named is not None  # noqa: S101 - the config has one of them
        return Container(
            name=_fixed("exec", named, scope),
            env=_env(inner, scope),
            user=_user(inner, scope),
            cwd=_cwd(inner, scope),
        )
    return Container(
        image=_fixed("image", image, scope),
        name=None if name is None else _fixed("name", name, scope),
        options=_options(inner, scope),
        env=_env(inner, scope),
        user=_user(inner, scope),
        cwd=_cwd(inner, scope),
        volumes=tuple(_volume(item, scope) for item in _items(inner, "volumes")),
        keeps=inner.read("keep_container", read_flag, default=False),
    )


def _options(inner: Section, scope: Scope) -> tuple[str, ...]:
    found: list[str] = []
    if (pull := inner.get("pull_policy")) is not None:
        if (value := plain(pull)) not in PULLS:
            raise Invalid(f"pull_policy {quoted(value)} is not one of always, missing, never")
        found.append(f"--pull={PULLS[value]}")
    for key, option in _ONE_OPTION.items():
        if (node := inner.get(key)) is not None:
            found += [option, _fixed(key, node, scope)]
    for item in _items(inner, "ports"):
        found += ["--publish", _fixed("ports", item, scope)]
    return tuple(found)


def _items(inner: Section, key: str) -> list[Node]:
    return [] if (node := inner.get(key)) is None else items(node)


def _fixed(key: str, node: Node, scope: Scope) -> str:
    """A string that callers of the flow cannot change, and that is not an option of the
    engine."""
    text: str = walk(text_of(key, plain(node)), scope)
    check_value(text, scope, key, "write it literally, or as a variable of env")
    if not text or text.startswith("-"):
        raise Invalid(f"{key} {quoted(plain(node))} is not a name")
    return text


def _volume(node: Node, scope: Scope) -> str:
    text = _fixed("volumes", node, scope)
    if text.count(":") not in (1, 2) or text.rpartition(":")[2] == "":
        raise Invalid(f'volumes "{shorten(text)}" does not have the form source:target[:ro]')
    return text


def _user(inner: Section, scope: Scope) -> str | None:
    return None if (node := inner.get("user")) is None else _fixed("user", node, scope)


def _cwd(inner: Section, scope: Scope) -> str | None:
    node = inner.get("working_dir")
    return None if node is None else _fixed("working_dir", node, scope)


def _env(inner: Section, scope: Scope) -> tuple[tuple[str, str], ...]:
    scope = replace(scope, secrets=True)
    return tuple((name, _value(name, value, scope)) for name, _, value in read_pairs(inner, "env"))


def _value(name: str, value: Any, scope: Scope) -> str:
    text: str = walk("" if value is None else text_of(name, value), scope)
    return text
