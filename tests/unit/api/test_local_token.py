"""The local token: made once, kept, and read by its owner only."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from duebook.api.local_token import find_local_token, keep_local_token, local_token_path
from duebook.errors import Invalid, Unavailable


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
    with pytest.raises(Invalid, match=r"mode 644\); chmod 600"):
        keep_local_token(path)


def test_a_file_without_a_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    with pytest.raises(Invalid, match="has no token; delete it"):
        keep_local_token(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    keep_local_token(tmp_path / "other")
    (tmp_path / "token").symlink_to(tmp_path / "other")
    with pytest.raises(Unavailable, match="cannot be read"):
        keep_local_token(tmp_path / "token")
