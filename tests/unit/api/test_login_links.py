"""Login links: once, for a minute, and only with the token that they were printed for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from duebook.api.local_token import LocalToken, keep_local_token, rotate_local_token
from duebook.api.login_links import LINK_LASTS, LoginLinks

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / ".duebook" / "token"
    keep_local_token(path)
    return path


def links_at(path: Path, seconds: Clock) -> LoginLinks:
    """As each process has them."""
    return LoginLinks(path, LocalToken(path), seconds)


def test_a_code_works_once_for_all_processes(path: Path, seconds: Clock) -> None:
    token = keep_local_token(path)
    code = links_at(path, seconds).new_code(token)
    assert links_at(path, seconds).use(code) == token
    assert links_at(path, seconds).use(code) is None


def test_of_many_who_use_a_code_at_once_one_gets_in(path: Path, seconds: Clock) -> None:
    code = links_at(path, seconds).new_code(keep_local_token(path))
    together, found = threading.Barrier(8), []

    def use() -> None:
        links = links_at(path, seconds)
        together.wait()
        found.append(links.use(code))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(token is not None for token in found) == 1


@pytest.mark.parametrize(("later", "works"), [(59, True), (60, False), (-3600, False)])
def test_a_code_works_for_a_minute(path: Path, seconds: Clock, later: int, works: bool) -> None:
    links = links_at(path, seconds)
    code = links.new_code(keep_local_token(path))
    seconds.now += later
    assert (links.use(code) is not None) is works
    seconds.now -= later
    assert links.use(code) is None, "one that came too late is used up"


def test_a_rotation_ends_the_links_of_the_old_token(path: Path, seconds: Clock) -> None:
    links = links_at(path, seconds)
    code = links.new_code(keep_local_token(path))
    rotate_local_token(path)
    assert links.use(code) is None


def test_codes_are_kept_hashed_and_those_of_before_are_deleted(path: Path, seconds: Clock) -> None:
    links, token = links_at(path, seconds), keep_local_token(path)
    codes = [links.new_code(token) for _ in range(3)]
    files = [file for file in path.parent.iterdir() if file != path]
    assert len(files) == 3
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o600
        for secret in (*codes, token):
            assert secret not in file.name + file.read_text()
    seconds.now += LINK_LASTS
    links.new_code(token)
    assert len([file for file in path.parent.iterdir() if file != path]) == 1


@pytest.mark.parametrize("code", ["", "token", "../token", "é" * 32, "a" * 31, "a" * 32, "\0" * 32])
def test_a_code_that_was_never_printed_opens_nothing(path: Path, seconds: Clock, code: str) -> None:
    assert links_at(path, seconds).use(code) is None
    assert path.exists()


def test_the_newest_node_is_found(path: Path, seconds: Clock) -> None:
    links = links_at(path, seconds)
    assert links.address() is None
    for port in (1, 2):
        links.announce(f"http://127.0.0.1:{port}")
    assert links_at(path, seconds).address() == "http://127.0.0.1:2"
