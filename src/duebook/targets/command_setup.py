"""What commands get from their node: some of its variables, and the user that they run as.

A node has secrets in its environment, such as PGPASSWORD, that are not meant for its commands. So
they inherit only the variables that programs usually need, and those that the settings name.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.private_folder import user_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "INHERITED",
    "CommandSetup",
    "CommandUser",
    "command_setup",
    "early_variables",
    "find_user",
    "inherited_variables",
    "read_pass_env",
]

INHERITED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"),
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*"),
    *("VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""Names of variables, or their prefixes."""
_INTERPRETER: Final = ("PYTHON*", "LD_*", "DYLD_*", "MALLOC_*", "COVERAGE_*")
"""Read by an interpreter and its libraries before the first line of a program."""
_NAMED_ONLY: Final = (
    *("DUEBOOK_DATABASE_URL", "DUEBOOK_LISTEN_URL", "DUEBOOK_SMTP_URL", "DUEBOOK_TOKEN"),
)
"""Variables that patterns do not pass on."""
_OF_THE_USER: Final = ("TMPDIR", "XDG_*")
"""Directories of the node's user, which other users cannot use."""
_PATTERN: Final = re.compile(r"\*|[A-Za-z_][A-Za-z0-9_]*\*?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CommandUser:
    """The user that commands run as, other than the node's."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def variables(self) -> dict[str, str]:
        """Set as in a login."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


@dataclass(frozen=True, slots=True)
class CommandSetup:
    """Common to all commands of a node."""

    inherited: Mapping[str, str]
    """the variables of the node that they get"""
    user: CommandUser | None = None
    """None: the user of the node"""


def command_setup(
    pass_env: str | Sequence[str] = "",
    run_as: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> CommandSetup:
    """From the settings `pass_env` and `run_as`; raises Invalid for wrong values."""
    patterns = read_pass_env(pass_env)
    user = find_user(run_as) if run_as else None
    inherited = inherited_variables(environ, patterns)
    if user is not None:
        kept = {
            name: value
            for name, value in inherited.items()
            if not _matches(name, _OF_THE_USER) or _matches(name, patterns)
        }
        inherited = kept | user.variables
    return CommandSetup(inherited, user)


def read_pass_env(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names, prefixes such as `AWS_*`, or `*` for all, from a list or separated by commas."""
    words = value.split(",") if isinstance(value, str) else value
    found = tuple(word.strip() for word in words if not isinstance(word, str) or word.strip())
    for word in found:
        if not _PATTERN.fullmatch(word):
            raise Invalid(
                f"pass_env {quoted(word)} is not a variable name or a prefix; use a form such "
                'as "EDITOR, AWS_*"'
            )
    return found


def inherited_variables(environ: Mapping[str, str], pass_env: Sequence[str] = ()) -> dict[str, str]:
    """The variables of an environment that commands get."""
    allowed = (*INHERITED, *pass_env)
    return {
        name: value
        for name, value in environ.items()
        if _matches(name, allowed) and (name not in _NAMED_ONLY or name in pass_env)
    }


def early_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables with which one of Duebook's own processes is started.

    Other processes of the same user can read these until the process forbids it; it gets the rest
    from its node, later.
    """
    allowed = (*INHERITED, *_INTERPRETER)
    return {name: value for name, value in environ.items() if _matches(name, allowed)}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


def find_user(name: str) -> CommandUser:
    """Raises Invalid for a user that does not exist, that would not protect the node from commands,
    or that this process cannot become."""
    import pwd

    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise Invalid(
            f'run_as "{shorten(name)}" is not a user of this machine; create it, for example '
            f"with: useradd --system {shorten(name)}"
        ) from None
    own = os.geteuid()
    if found.pw_uid == 0:
        raise Invalid("run_as root would give commands full access; use an ordinary user")
    if found.pw_uid == own:
        raise Invalid(
            f'run_as "{name}" is the user that the node runs as, so commands could '
            "read the node's files; use another user, and start the node as root"
        )
    if own != 0:
        raise Invalid(
            f'run_as "{name}" needs root: only root can run commands as another user, and the node '
            f"runs as {user_name(own)}"
        )
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    home, shell = found.pw_dir, found.pw_shell or "/bin/sh"
    return CommandUser(name, found.pw_uid, found.pw_gid, groups, home, shell)
