"""What a command can reach of the node that runs it: no secrets, and as another user nothing."""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duebook.engine.output_files import OutputFiles
from duebook.targets.command_setup import command_setup
from duebook.targets.processes import Exit, Stop, supervise
from duebook.targets.spawner import Spawner
from tests.attack import commands
from tests.attack.commands import FILES, PROCESSES, Word, as_ordinary_user
from tests.support.nodes import World, world
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["world"]  # the fixture

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
OTHER = "nobody"


def local_token(world: World) -> str:
    return (world.folder / ".duebook" / "token").read_text().strip()


def test_commands_find_only_the_secrets_that_are_passed_on(world: World) -> None:
    """The node runs as a user without privileges, and its commands as the same user. What they are
    given, a person who reads their log does not see."""
    word = Word()
    argv = world.cli_argv("up", "--port", "0", "--pass-env", "JOB_PASSWORD")
    node = world._begin(
        as_ordinary_user(argv), {**word.env, "JOB_PASSWORD": "hunter-2222", "JOB_PLACE": "eu"}
    )
    ways = {**PROCESSES, "what is passed on": 'echo "it is $JOB_PASSWORD"; echo ${#JOB_PASSWORD}'}
    printed = commands.run(node.address, local_token(world), word, ways)
    looked = printed["the memory of supervisor, spawner, node and web process"]
    assert re.search(rf"looked at \d+ \d+ {node.pid} \d+ \d+", looked), looked
    assert printed["what is passed on"].splitlines() == ["it is ***", "11"]
    world.add("lacks", 'set -u; echo "$JOB_PLACE"')
    run = world.trigger("lacks")
    world.wait_for(run, "failed")
    told = "the node does not pass JOB_PLACE to commands; start it with --pass-env JOB_PLACE"
    assert told in (world.book.runs.get(run).error or "")
    assert node.end() == 0


@needs_root
def test_commands_of_another_user_reach_nothing_of_the_node(world: World) -> None:
    """Its directory can be entered, but neither the books nor `.duebook`."""
    world.book.schedules.list()
    world.folder.chmod(0o755)
    for file in world.folder.glob("books.db*"):
        file.chmod(0o600)
    word = Word()
    argv = world.cli_argv("up", "--port", "0", "--run-as", OTHER)
    node = world._begin(argv, word.env)
    url, token = node.address, local_token(world)
    assert f"runs commands as {OTHER}" in node.output
    ways = PROCESSES | FILES
    printed = commands.run(url, token, word, ways, FOLDER=".", BOOKS="books.db")
    for way in FILES:
        assert re.search("denied|not permitted|failed", printed[way]), printed[way]
    assert node.end() == 0


@needs_root
def test_books_that_the_user_of_commands_could_read_are_refused(world: World) -> None:
    world.book.schedules.list()
    world.path.chmod(0o644)
    world.folder.chmod(0o755)
    result = world.cli("up", "--roles", "worker", "--run-as", OTHER)
    assert result.returncode == 2
    told = f'(mode 644), including "{OTHER}", the user that runs commands; chmod 600'
    assert told in result.stderr


def performed(spawner: Spawner, text: str, **env: str) -> tuple[Exit, list[str]]:
    printed = bytearray()
    variables = {**spawner.setup.inherited, **env}
    with Stop() as stop:
        ended = supervise(
            spawner.spawn(["sh", "-c", text], variables),
            lambda _, piece: printed.extend(piece),
            stop,
            PATIENCE,
            1.0,
        )
    return ended, printed.decode().splitlines()


@pytest.fixture
def spawner() -> Iterator[Spawner]:
    with Spawner(command_setup(run_as=OTHER)) as started:
        yield started


@needs_root
def test_a_command_is_the_other_user_in_every_respect(spawner: Spawner) -> None:
    text = """
        id -u; id -ru; id -g; id -G; grep CapEff /proc/self/status
        echo "$HOME $USER $LOGNAME"; echo out > /dev/stdout; echo error > /dev/stderr"""
    ended, lines = performed(spawner, text)
    known = pwd.getpwnam(OTHER)
    groups = " ".join(map(str, os.getgrouplist(OTHER, known.pw_gid)))
    uid, gid = str(known.pw_uid), str(known.pw_gid)
    assert lines[:5] == [uid, uid, gid, groups, "CapEff:\t0000000000000000"]
    assert lines[5] == f"{known.pw_dir} {OTHER} {OTHER}"
    assert sorted(lines[6:]) == ["error", "out"]
    assert ended.code == 0


@needs_root
def test_what_another_user_leaves_behind_ends_with_its_run(spawner: Spawner) -> None:
    ended, lines = performed(spawner, "(setsid sleep 1000 & echo $!) ; exit 3")
    assert (ended.code, ended.survivors) == (3, 0)
    assert not Path(f"/proc/{lines[0]}").exists()


@needs_root
def test_another_user_reads_the_outputs_that_are_his_and_changes_nothing_else(
    spawner: Spawner,
) -> None:
    with OutputFiles(spawner.setup.user) as files:
        name = files.write({"MUCH": "x" * 300_000})["MUCH"]
        text = 'wc -c < "$NAME"; touch "$NAME-new" || echo no; ls "${NAME%/*}" || echo no'
        _, lines = performed(spawner, f"exec 2>/dev/null; {text}", NAME=name)
        assert lines == ["300000", "no", "no"]
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600


@needs_root
def test_the_processes_of_tasks_stay_those_of_the_node(spawner: Spawner) -> None:
    process = spawner.spawn(["id", "-u"], spawner.setup.inherited, as_node=True)
    printed = bytearray()
    with Stop() as stop:
        supervise(process, lambda _, piece: printed.extend(piece), stop, PATIENCE, 1.0)
    assert printed == b"0\n"
