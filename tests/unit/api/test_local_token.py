"""The local token: made once, kept, and read by its owner only."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from duebook.api.authenticator import authenticator_of
from duebook.api.local_token import (
    LocalToken,
    find_local_token,
    keep_local_token,
    local_token_path,
    rotate_local_token,
)
from duebook.errors import Invalid, NotFound, Unavailable
from duebook.private_folder import refuse_writable
from duebook.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///.duebook/duebook.db", ".duebook/token"),
        ("books.db", ".duebook/token"),
        ("sqlite:////var/lib/books.db", "/var/lib/.duebook/token"),
        ("postgresql://db/books", ".duebook/token"),
    ],
)
def test_it_stands_beside_the_books(url: str, path: str) -> None:
    assert local_token_path(url) == Path(path)


def test_it_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / ".duebook" / "token"
    assert find_local_token(path) is None
    text = keep_local_token(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert keep_local_token(path) == find_local_token(path) == text
    assert [file.name for file in path.parent.iterdir()] == ["token"]


def test_those_who_start_at_once_get_the_same(tmp_path: Path) -> None:
    path = tmp_path / "token"
    found: list[str] = []
    together = threading.Barrier(8)

    def start() -> None:
        together.wait()
        found.append(keep_local_token(path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    keep_local_token(path)
    path.chmod(0o644)
    with pytest.raises(Invalid, match=r"mode 644\); chmod 600 .*token rotate"):
        keep_local_token(path)


def test_a_file_without_a_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    with pytest.raises(Invalid, match="has no token; replace it: duebook token rotate"):
        keep_local_token(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    keep_local_token(tmp_path / "other")
    (tmp_path / "token").symlink_to(tmp_path / "other")
    with pytest.raises(Unavailable, match="cannot be read"):
        keep_local_token(tmp_path / "token")


@pytest.mark.parametrize(("mode", "told"), [(0o770, "770"), (0o707, "707"), (0o1777, "1777")])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int, told: str) -> None:
    folder = tmp_path / ".duebook"
    keep_local_token(folder / "token")
    folder.chmod(mode)
    for use in (keep_local_token, find_local_token, rotate_local_token):
        with pytest.raises(Invalid, match=rf"{folder} .*mode {told}\); chmod go-w {folder}$"):
            use(folder / "token")
    folder.chmod(0o755)
    assert find_local_token(folder / "token")


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 2, 2)
        refuse_writable(tmp_path)  # root can use those of anybody
    somebody = tmp_path.stat().st_uid + 1
    monkeypatch.setattr("os.geteuid", lambda: somebody)
    with pytest.raises(
        Invalid, match=r"belongs to .* use a directory that you own, or chown this one"
    ):
        refuse_writable(tmp_path)


def test_a_rotation_ends_the_old_token_and_its_sessions_at_once(tmp_path: Path) -> None:
    path = tmp_path / ".duebook" / "token"
    old = keep_local_token(path)
    store = SqliteStore(tmp_path / "books.db")
    door = authenticator_of(store, path)  # that of a process that goes on
    session = door.open_session(old)
    assert session is not None
    assert door.check_session(session) is not None
    rotate_local_token(path)
    new = keep_local_token(path)
    assert new != old
    assert path.stat().st_mode & 0o777 == 0o600
    assert door.check(old) is None
    assert door.check_session(session) is None
    assert door.check_session(session, again=True) is None
    assert door.check(new) is not None
    assert [file.name for file in path.parent.iterdir()] == ["token"]
    store.close()


def test_a_rotation_replaces_a_token_that_others_could_read(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(NotFound, match="duebook up creates it"):
        rotate_local_token(path)
    old = keep_local_token(path)
    token = LocalToken(path)
    assert token() == old
    path.chmod(0o640)
    assert token() is None
    rotate_local_token(path)
    assert token() == keep_local_token(path) != old
    path.unlink()
    assert token() is None


@pytest.mark.parametrize("place", range(3))
def test_a_slow_thread_never_brings_a_rotated_token_back(tmp_path: Path, place: int) -> None:
    """What it found before the rotation, it keeps while another thread keeps what it found after,
    before each of the other's assignments."""
    assigned: list[tuple[str, object]] = []
    late: dict[int, list[tuple[str, object]]] = {}

    class Watched(LocalToken):
        def __setattr__(self, name: str, value: object) -> None:
            for other in late.pop(len(assigned), ()):
                super().__setattr__(*other)
            assigned.append((name, value))
            super().__setattr__(name, value)

    path = tmp_path / "token"
    old = keep_local_token(path)
    token = Watched(path)
    assigned.clear()
    assert token() == old
    late[place] = list(assigned)
    assigned.clear()
    rotate_local_token(path)
    assert token() != old
    assert token() == keep_local_token(path) != old
