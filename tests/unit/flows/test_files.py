"""Flow files: which are found, and that only whole ones within their directory are read."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from duebook.flows.files import default_name, find, read
from duebook.flows.problems import Refused

if TYPE_CHECKING:
    from pathlib import Path


def test_files_below_a_directory_are_found_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "sub/c.yaml", ".git/d.yaml", ".e.yaml", "f.txt", "g.yaml~"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in find(tmp_path)]
    assert found == ["a.yml", "b.yaml", "sub/c.yaml"]


def test_a_directory_that_is_gone_is_no_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        list(find(tmp_path / "gone"))


def test_the_name_of_a_file_is_that_of_its_flow(tmp_path: Path) -> None:
    assert default_name(tmp_path / "etl.daily.yaml") == "etl.daily"


def test_a_file_is_known_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("\ufeffsteps: [a]", "utf-8")
    first = read(path, "a.yaml", tmp_path)
    path.write_text("steps: [b]")
    second = read(path, "a.yaml", tmp_path)
    assert first is not None
    assert second is not None
    assert first.text == "steps: [a]"
    assert first.digest != second.digest
    path.unlink()
    assert read(path, "a.yaml", tmp_path) is None


def test_a_link_within_the_directory_is_followed_and_one_that_leaves_it_refused(
    tmp_path: Path,
) -> None:
    root, outside = tmp_path / "flows", tmp_path / "secret.yaml"
    (root / "..data").mkdir(parents=True)
    (root / "..data" / "a.yaml").write_text("steps: [a]")
    (root / "a.yaml").symlink_to("..data/a.yaml")
    outside.write_text("password: x")
    (root / "b.yaml").symlink_to(outside)
    (root / "c.yaml").symlink_to("../secret.yaml")
    (root / "d.yaml").symlink_to("d.yaml")
    assert [path.name for path in find(root)] == ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]
    content = read(root / "a.yaml", "a.yaml", root)
    assert content is not None
    for name in ("b.yaml", "c.yaml"):
        with pytest.raises(
            Refused,
            match=f"^{name}: it is a link to a place outside its directory;",
        ):
            read(root / name, name, root)
    with pytest.raises(Refused, match=r"d\.yaml: it cannot be read"):
        read(root / "d.yaml", "d.yaml", root)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"a: \xff\n", "byte 0xff is not valid UTF-8"),
        (b"x" * 1_000_001, "at most 1,000,000 are allowed"),
    ],
)
def test_what_is_no_text_or_too_much_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    with pytest.raises(Refused, match=told):
        read(tmp_path / "a.yaml", "a.yaml")


def test_a_pipe_or_directory_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").mkdir()
    for name in ("a.yaml", "b.yaml"):
        with pytest.raises(Refused):
            read(tmp_path / name, name)


def test_a_file_that_is_replaced_all_the_time_is_read_as_one_of_its_versions(
    tmp_path: Path,
) -> None:
    path, stop = tmp_path / "a.yaml", threading.Event()
    versions = {letter * 50_000 for letter in "ab"}
    path.write_text("a" * 50_000)

    def replace() -> None:
        while not stop.is_set():
            for text in versions:
                (tmp_path / "new").write_text(text)
                (tmp_path / "new").replace(path)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(50):
            try:
                content = read(path, "a.yaml")
            except Refused as error:
                assert "keeps changing while it is read" in str(error)  # noqa: PT017
            else:
                assert content is not None
                assert content.text in versions
    finally:
        stop.set()
        thread.join()
