"""Commands that look for what is none of theirs: in the environment, the memory and the files of
the node that runs them.

The node has secrets in its environment that begin with a word of the test's own, so that nothing
else on the machine is ever read out. A command gets that word in two halves, so that it does not
find itself; they are too short to be hidden in its log.
"""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING, Any, Final

import httpx2

from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FILES", "PROCESSES", "Word", "as_ordinary_user", "run"]

_UP: Final = """
        up() { awk '/^PPid:/ {print $2}' "/proc/$1/status"; }"""
PROCESSES: Final = {
    "its own variables": 'env | grep -ao "$A$B[-a-z]*"',
    "the environment of its parent": 'grep -ao "$A$B[-a-z]*" /proc/$PPID/environ',
    "the environment of every process": 'grep -aoh "$A$B[-a-z]*" /proc/[0-9]*/environ',
    "the command line of every process": 'grep -aoh "$A$B[-a-z]*" /proc/[0-9]*/cmdline',
    "the memory of supervisor, spawner, node and web process": _UP
    + """
        spawner=$(up $PPID); node=$(up $spawner); web=$(cat /proc/$node/task/$node/children)
        echo "looked at $PPID $spawner $node $web"
        for pid in $PPID $spawner $node $web; do
            cat /proc/$pid/maps >/dev/null && echo "$A$B-maps-of-$pid"
            readlink /proc/$pid/fd/2 && echo "$A$B-descriptors-of-$pid"
            dd if=/proc/$pid/mem count=0 && echo "$A$B-memory-of-$pid"
        done""",
}
"""What no command may find, whoever runs it but root. As shell text."""
FILES: Final = {
    "the local token": 'cat "$FOLDER/.duebook/token" && echo "$A$B-token"',
    "the files beside the token": 'ls "$FOLDER/.duebook" && echo "$A$B-names"',
    "the books": 'cat "$BOOKS" >/dev/null && echo "$A$B-books"',
    "to write beside the books": 'touch "$FOLDER/x" && echo "$A$B-wrote"',
    "to stop the node": f"""{_UP}
        kill -0 $(up $(up $PPID)) && echo "$A$B-signal" """,
    "to become root": 'setpriv --reuid 0 true && echo "$A$B-root"',
}
"""What a command must not find when it runs as another user; of the same user it can."""

CONTROL: Final = "what it has"
_DROP: Final = """
import ctypes, os, sys
for capability in (19, 21, 38):  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""


class Word:
    """What the secrets of a node begin with."""

    def __init__(self) -> None:
        self.text = f"loot{uuid.uuid4().hex[:10]}"

    @property
    def env(self) -> dict[str, str]:
        """Secrets of a node, by variables that nodes have."""
        names = ("PGPASSWORD", "DUEBOOK_TOKEN", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY")
        return {name: f"{self.text}-{name.lower().replace('_', '-')}" for name in names}

    @property
    def halves(self) -> dict[str, str]:
        return {"A": self.text[:7], "B": self.text[7:]}


def as_ordinary_user(argv: list[str]) -> list[str]:
    """A command line that root runs without the privileges to look into any process, so that it
    reads of root's processes what an ordinary user reads of his own."""
    return [sys.executable, "-c", _DROP, *argv] if os.geteuid() == 0 else argv


def run(
    url: str, admin: str, word: Word, ways: Mapping[str, str], **variables: str
) -> dict[str, str]:
    """Let a node run commands that try each way, and return what they printed.

    Raises AssertionError when one of them finds something.
    """
    printed: dict[str, str] = {}
    env = {**word.halves, **variables}
    ways = {CONTROL: 'echo "$A$B-control"', **ways}
    headers = {"Authorization": f"Bearer {admin}"}
    with httpx2.Client(base_url=f"{url}/api/v1/", headers=headers, timeout=PATIENCE) as api:
        for number, (way, text) in enumerate(ways.items()):
            name = f"attack-{uuid.uuid4().hex[:8]}-{number}"
            target = {"shell": f"{text}\nexit 0", "env": env}
            body = {"name": name, "cron": "0 0 29 2 *", "target": target}
            _of(api.post("schedules", json=body))
            printed[way] = _printed(api, _of(api.post(f"schedules/{name}/trigger"))["id"])
            _of(api.delete(f"schedules/{name}"))
    found = {way: text for way, text in printed.items() if word.text in text or "dbk_" in text}
    assert found.pop(CONTROL, None) is not None, "what commands find would not be seen"
    assert not found, f"commands found: {found}"
    return printed


def _printed(api: httpx2.Client, run_id: str) -> str:
    eventually(lambda: _of(api.get(f"runs/{run_id}"))["status"] not in ("queued", "running"))
    return "\n".join(line["text"] for line in _of(api.get(f"runs/{run_id}/log"))["items"])


def _of(answer: httpx2.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None
