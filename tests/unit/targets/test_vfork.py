"""Programs that are started by vfork: what they get, and that they end with who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import closing, suppress
from pathlib import Path

import pytest

from duebook.targets.vfork import VFork, open_vfork
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends it so")

MISSING = b"/nonexistent/program"


def printed(argv: list[bytes], variables: list[bytes] | None = None) -> bytes:
    """What a program prints until it ends."""
    vfork = VFork()
    reader, writer = os.pipe()
    with closing(os.fdopen(reader, "rb")) as file:
        vfork.prepare([MISSING, argv[0]], argv, variables or [], writer, writer)
        pid = vfork.start()
        os.close(writer)
        assert pid is not None
        text = file.read()
    assert os.waitpid(pid, 0) == (pid, 0)
    return text.replace(b"%d" % pid, b"PID")


def test_arguments_and_variables_are_passed_exactly() -> None:
    script = b'printf "%s|" "$0" "$@"; printf %s "$A" >&2'
    assert printed([b"/bin/sh", b"-c", script, b"a b", b"", b"\xff"], [b"A=x=y\n"]) == (
        b"a b||\xff|x=y\n"
    )


def test_it_leads_a_session_of_its_own() -> None:
    facts = printed([b"/bin/sh", b"-c", b"exec cut -d' ' -f1,5,6 /proc/self/stat"])
    assert facts == b"PID PID PID\n"


def test_the_signals_are_blocked_that_were_when_it_was_prepared() -> None:
    vfork = VFork()
    reader, writer = os.pipe()
    with closing(os.fdopen(reader)) as file:
        vfork.prepare([b"/bin/cat"], [b"cat", b"/proc/self/status"], [], writer, writer)
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
        try:
            pid = vfork.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
        os.close(writer)
        fields = dict(line.split(":\t", 1) for line in file.read().splitlines())
    assert pid is not None
    os.waitpid(pid, 0)
    assert int(fields["SigBlk"], 16) == 0


def test_nothing_is_left_of_a_program_that_cannot_be_executed(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    vfork = VFork()
    vfork.prepare([MISSING, os.fsencode(plain)], [b"x"], [], 1, 2)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    assert vfork.start() is None
    assert children.read_text() == before


def test_one_starts_program_after_program() -> None:
    vfork = VFork()
    for code in range(3):
        vfork.prepare([b"/bin/sh"], [b"sh", b"-c", b"exit %d" % code], [], 1, 2)
        pid = vfork.start()
        assert pid is not None
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code


STARTER = """
    import os, sys
    from duebook.targets.vfork import open_vfork
    vfork = open_vfork()
    vfork.prepare([b"/bin/sleep"], [b"sleep", b"1000"], [], 2, 2)
    print(vfork.start(), flush=True)
    sys.stdin.read()
    os._exit(0)
"""


def test_it_is_killed_when_its_starter_ends() -> None:
    argv = [sys.executable, "-c", textwrap.dedent(STARTER)]
    with subprocess.Popen(  # noqa: S603
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        try:
            # the starter continues a moment before the kernel has put the arguments in place
            eventually(lambda: cmdline(pid) == b"sleep\x001000\0")
            starter.stdin.close()
            eventually(lambda: cmdline(pid) == b"")
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def cmdline(pid: int) -> bytes:
    """Nothing when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_elsewhere_than_on_linux_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert open_vfork() is None
