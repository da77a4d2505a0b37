"""Turns a step with its values into the command that a node starts: in its directory, perhaps in a
container, perhaps with files for its output; starts nothing."""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import BUILTINS, handler_name
from duebook.model.target import CommandTarget
from duebook.targets.programs import steers

if TYPE_CHECKING:
    from duebook.flows.render import Rendered
    from duebook.model.flow import Container

__all__ = ["OUTPUT_FILE", "Surroundings", "launched"]

OUTPUT_FILE: Final = "DAGU_OUTPUT_FILE"
"""The variable with the path of the file for the named outputs of a step."""
_SHELL: Final = ("/bin/sh", "-c")
_ENGINE: Final = (
    "engine=$(command -v docker || command -v podman) || {\n"
    "echo 'docker and podman are not installed on this worker; install one of them, or use "
    "worker_selector' >&2\nexit 127\n}\n"
)
_TEE: Final = (
    "mkdir -p -- {folder} || exit\nexec 4>&{number}\n"
    'code=$({{ {{ "$@" {swap} 3>&- 4>&-; echo $? >&3; }} | tee -a -- {file} >&4; }} 3>&1)\n'
    'exit "${{code:-1}}"'
)
"""Passes on what is printed to one stream, and appends it to a file."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a command is started."""

    directory: str | None = None
    """the directory of the flow's file, if this node has it"""
    home: str | None = None
    run_id: str = ""
    """the id of the run of the flow"""
    python: str = "python3"
    outputs: str | None = None
    """the file for the named outputs of the step"""


def launched(name: str, rendered: Rendered, around: Surroundings) -> CommandTarget:
    """The complete command of a step."""
    target = rendered.target
    assert isinstance(target, CommandTarget)  # noqa: S101 - the caller has checked
    cwd = _within(target.cwd, around)
    argv = target.argv
    if argv and argv[0] in BUILTINS:
        argv = (around.python, "-I", "-m", BUILTINS[argv[0]], *argv[1:])
    if rendered.container is not None:
        argv = _in_container(name, rendered, argv, around, cwd)
    for stream, file in (("stderr", rendered.stderr), ("stdout", rendered.stdout)):
        if file is not None:
            argv = (*_SHELL, _teed(stream, file), "duebook", *argv)
    env = target.env
    if around.outputs is not None:
        env = (*env, (OUTPUT_FILE, around.outputs))
    return replace(target, argv=argv, cwd=cwd, env=env)


def _within(path: str | None, around: Surroundings) -> str | None:
    """Resolve a path of the file: relative to its directory, or to the home directory."""
    if path is None:
        return around.directory
    if path == "~" or path.startswith("~/"):
        return path if around.home is None else around.home + path[1:]
    if around.directory is None or posixpath.isabs(path):
        return path
    return posixpath.normpath(posixpath.join(around.directory, path))


def _teed(stream: str, file: str) -> str:
    swap = "2>&1 1>&4" if stream == "stderr" else ""
    made = _TEE.format(
        folder=shlex.quote(posixpath.dirname(file) or "."),
        file=shlex.quote(file),
        number=2 if stream == "stderr" else 1,
        swap=swap,
    )
    if stream == "stderr":  # its stdout bypasses the pipe
        made = made.replace("exec 4>&2\n", "exec 4>&2 5>&1\n").replace("1>&4", "1>&5")
    return made


def _in_container(
    name: str, rendered: Rendered, argv: tuple[str, ...], around: Surroundings, cwd: str | None
) -> tuple[str, ...]:
    container = rendered.container
    assert container is not None  # noqa: S101 - the caller has checked
    inside = _options(container, rendered, around)
    if container.shared:
        text = _shared(name, container, inside, argv, around, cwd)
        return (*_SHELL, _ENGINE + text)
    if container.image is None:
        words = ["exec", *inside, container.name or "", *argv]
    else:
        named = [] if container.name is None else ["--name", container.name]
        removed = [] if container.keeps else ["--rm"]
        created = [*container.options, *_volumes(container, around, cwd)]
        words = ["run", *removed, *named, *created, *inside, container.image, *argv]
    return (*_SHELL, f'{_ENGINE}exec "$engine" "$@"', "duebook", *words)


def _shared(
    name: str,
    container: Container,
    inside: list[str],
    argv: tuple[str, ...],
    around: Surroundings,
    cwd: str | None,
) -> str:
    """The first step creates the container of the run, and the exit handler removes it."""
    called = container.name or f"duebook-{around.run_id}"
    known = f'"$engine" inspect {shlex.quote(called)} >/dev/null 2>&1'
    created = ["-d", "--name", called, *container.options, *_volumes(container, around, cwd)]
    created += [*_user_and_cwd(container), "--entrypoint", "/bin/sh", container.image or ""]
    created += ["-c", "while :; do sleep 3600; done"]
    removed = f'"$engine" rm -f {shlex.quote(called)} >/dev/null 2>&1\n'
    last = name == handler_name("exit") and not container.keeps
    if not argv:
        return f"{removed}exit 0"
    text = (
        f'{known} || "$engine" run {shlex.join(created)} >/dev/null || {known} || exit 125\n'
        f'"$engine" exec {shlex.join([*inside, called, *argv])}\n'
    )
    return f"{text}code=$?\n{removed}exit $code" if last else text


def _options(container: Container, rendered: Rendered, around: Surroundings) -> list[str]:
    """Pass variables by name only, so that no value appears on a command line."""
    own = {name for name, _ in container.env}
    names = [n for n, _ in rendered.variables if n in own or not steers(n) or n.startswith("DAG_")]
    found = _user_and_cwd(container)
    if around.outputs is not None:
        names.append(OUTPUT_FILE)
        if container.image is not None and not container.shared:
            found += ["--volume", f"{around.outputs}:{around.outputs}"]
    return found + [part for name in dict.fromkeys(names) for part in ("--env", name)]


def _user_and_cwd(container: Container) -> list[str]:
    user = [] if container.user is None else ["--user", container.user]
    return user + ([] if container.cwd is None else ["--workdir", container.cwd])


def _volumes(container: Container, around: Surroundings, cwd: str | None) -> list[str]:
    """Volumes that are paths are relative to the working directory."""
    found: list[str] = []
    for volume in container.volumes:
        source, _, rest = volume.partition(":")
        if source.startswith((".", "~")):
            source = _within(source, replace(around, directory=cwd)) or source
        found += ["--volume", f"{source}:{rest}"]
    return found
