"""Messages of the command line: notes, progress, counts and errors in users' programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.server import bind
from duebook.book import Book
from duebook.cli import run as running
from duebook.clock import utc_now
from duebook.errors import counted
from duebook.store.sqlite import SqliteStore
from duebook.store.values import SessionInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Run
    from tests.support.cli import Cli


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 due times"), (1, "1 due time"), (2_000, "2,000 due times")]
)
def test_a_noun_goes_with_its_number(number: int, text: str) -> None:
    assert counted(number, "due time") == text


def test_one_schedule_of_a_file_is_counted_as_one(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text('[{"name": "a", "cron": "@daily", "target": "t"}]')
    assert cli.ok("add", "--file", str(file)) == "added 1 schedule\n"


class Told:
    """A run that changes its state at each look; the clock jumps each time."""

    def __init__(self, *states: Run) -> None:
        self._states: Iterator[Run] = iter(states)
        self.now = 0.0

    @property
    def runs(self) -> Told:
        return self

    def get(self, _: str) -> Run:
        return next(self._states)

    def log(self, *_: object) -> list[Any]:
        return []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 3.0


def follow(run: Run, states: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    told: Any = Told(*states)
    monkeypatch.setattr(running, "time", told)
    running._await(told, run, quiet=False)


def test_waiting_for_a_run_tells_of_its_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(SqliteStore(tmp_path / "b.db")) as store:
        run = Book(store).enqueue("digest")
    later = utc_now() + timedelta(minutes=10)
    running = run._replace(status="running", attempt=1)
    waiting = run._replace(status="queued", attempt=1, ready_at=later)
    again = run._replace(status="running", attempt=2)
    ended = run._replace(status="succeeded", attempt=2)
    follow(run, [running, waiting, waiting, again, ended], monkeypatch)
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"run {run.id} ").split(",")[0] for line in lines] == [
        "queued",
        "running",
        "waiting for attempt 2",
        "running",
    ]
    assert "in 10 min" in lines[2]


def test_waiting_for_a_run_that_nobody_starts_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(SqliteStore(tmp_path / "b.db")) as store:
        run = Book(store).enqueue("digest")
    follow(run, [run, run, run, run._replace(status="cancelled")], monkeypatch)
    assert capsys.readouterr().err.count("is a node running?") == 1


def live(cli: Cli, tasks: tuple[str, ...] = (), queues: tuple[str, ...] = ("default",)) -> None:
    info = SessionInfo("n", "host", 1, "scheduler,worker", "0", "2026a", tasks, queues)
    with closing(SqliteStore(cli.path)) as store:
        store.transact(lambda tx: tx.nodes.begin_session(info, timedelta(minutes=5)))


def test_what_a_new_schedule_lacks_is_noted(cli: Cli) -> None:
    added = ("add", "--every", "1h")
    told = cli(*added, "a", "--cwd", "/no/such/place", "--", "true").stderr
    assert told == (
        'note: there is no directory "/no/such/place" on this machine\n'
        "note: no node is running, so nothing is planned or run; start one: duebook up\n"
    )
    told = cli(*added, "b", "--queue", "reports", "--", "true").stderr
    assert 'no live worker serves queue "reports"; start one: duebook up' in told
    told = cli(*added, "c", "--task", "digest").stderr
    assert 'no live worker knows task "digest"; start one: duebook worker' in told
    told = cli("update", "a", "--queue", "reports").stderr
    assert 'no live worker serves queue "reports"' in told


def test_nothing_is_noted_about_what_is_there(cli: Cli, tmp_path: Path) -> None:
    live(cli, ("digest",), ("default", "reports"))
    (tmp_path / "job.sh").touch(0o755)
    added = ("add", "--every", "1h")
    for name, options in (
        ("a", ("--cwd", str(tmp_path), "--", "./job.sh")),
        ("b", ("--queue", "reports", "--", "true")),
        ("c", ("--task", "digest")),
        ("d", ("--cwd", "{{ schedule.name }}", "--", "true")),
    ):
        assert cli(*added, name, *options).stderr == "", name
    assert "did you mean `digest`?" in cli(*added, "e", "--task", "digets").stderr


def test_a_limit_without_a_number_names_the_options(cli: Cli) -> None:
    for group, option in (("queue", "--rate"), ("namespace", "--fires-per-minute")):
        result = cli(group, "limit", "shop")
        assert result.exit_code == 2
        assert option in result.stderr
        assert f"duebook {group} free shop" in result.stderr
        assert "()" not in result.stderr


PROGRAMS = {
    "fails": (
        "def load():\n    raise RuntimeError('no luck')\n\nload()\n",
        'File "…/fails.py", line 2, in load',
        "RuntimeError: no luck",
    ),
    "lacks": ("import no_such_package\n", 'File "…/lacks.py", line 1', "no_such_package"),
    "typo": ("book = = 1\n", 'File "…/typo.py", line 1', "SyntaxError: invalid syntax"),
    "deep": (
        "import json\njson.loads('{')\n",
        'File "…/deep.py", line 2, in <module>',
        "JSONDecodeError",
    ),
    "leaves": ("raise SystemExit(3)\n", "", "exits when it is imported"),
    "text": ("book = 'x'\n", "", "text:book is not a Duebook but a str"),
    "empty": ("", "", "there is no empty:book"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mistake_in_a_program_shows_the_programs_own_lines(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text, place, told = PROGRAMS[name]
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    result = cli("worker", f"{name}:book")
    monkeypatch.delitem(sys.modules, name, raising=False)
    assert result.exit_code == 2
    shown = result.stderr.replace(str(tmp_path), "…")
    assert place in shown
    *before, last = shown.splitlines()
    assert last.startswith("error: app: ")
    assert told in last
    assert [line for line in before if 'File "' in line and 'File "…/' not in line] == []
    assert "Traceback" not in shown


def test_completion_without_a_shell_names_the_choices(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    told = cli("completion").stderr
    assert "duebook completion bash|zsh|fish" in told
    told = cli("completion", "tcsh").stderr
    assert "'bash', 'zsh', 'fish'" in told
    assert "??" not in told
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert "_DUEBOOK_COMPLETE=fish_complete" in cli.ok("completion")


def test_a_choice_that_is_missing_is_told_on_one_line(cli: Cli) -> None:
    told = cli("ls", "--status", "asleep").stderr
    assert "??" not in told
    assert "'active', 'paused', 'completed'" in told


def test_bash_completes_commands_options_and_names(cli: Cli, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    cli.ok("add", "backup", "--every", "1h", "--", "true")
    program = tmp_path / "duebook"
    program.write_text(f"#!{sys.executable}\nfrom duebook.cli import main\nmain()\n")
    program.chmod(0o755)
    script = """
eval "$(duebook completion bash)"
try() {
    COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
    _duebook_completion duebook; echo "${COMPREPLY[*]}"
}
try duebook resc
try duebook run --w
try duebook show ba
try duebook ls --names
try duebook flow sta
try duebook show --database "$BOOKS" ba
"""
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BOOKS": str(cli.path)}
    env["DUEBOOK_DATABASE_URL"] = str(cli.path)
    done = subprocess.run(  # noqa: S603
        [bash, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "reschedule",
        "--wait",
        "backup",
        "--namespace",
        "start",
        "backup",
    ]
    assert done.stderr == ""


def test_an_address_of_all_interfaces_is_shown_as_one_that_opens() -> None:
    with closing((everywhere := bind("0.0.0.0", 0)).socket):  # noqa: S104
        assert everywhere.open_address == f"http://127.0.0.1:{everywhere.port}"
        assert everywhere.elsewhere is not None
        assert everywhere.elsewhere.endswith(f":{everywhere.port}")
        assert "0.0.0.0" not in everywhere.elsewhere  # noqa: S104
    with closing((here := bind("127.0.0.1", 0)).socket):
        assert here.open_address == here.address
        assert here.elsewhere is None
