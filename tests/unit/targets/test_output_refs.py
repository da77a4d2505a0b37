"""The references that commands leave in the file named by DUEBOOK_OUTPUT."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duebook.model.run import Outcome
from duebook.targets.output_refs import OutputRefs
from tests.support.targets import claim_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE = Outcome("succeeded", exit_code=0)


@pytest.fixture
def refs() -> Iterator[OutputRefs]:
    with OutputRefs() as opened:
        yield opened


@pytest.fixture
def path(refs: OutputRefs) -> Path:
    return Path(refs.path(claim_of({"command": ["true"]})))


def test_what_a_command_writes_into_the_file_is_the_reference(refs: OutputRefs, path: Path) -> None:
    path.write_text("s3://reports/2026-03.csv\n")
    assert refs.outcome(DONE, str(path)).output_ref == "s3://reports/2026-03.csv"
    assert not path.exists()
    assert refs.outcome(DONE, str(path)) is DONE, "each attempt leaves its own"


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_no_reference(refs: OutputRefs, path: Path, text: str) -> None:
    path.write_text(text)
    assert refs.outcome(DONE, str(path)) == DONE


def test_a_command_that_failed_leaves_no_reference(refs: OutputRefs, path: Path) -> None:
    failed = Outcome("failed", "exit_code", "exit code 1", 1)
    path.write_text("s3://half")
    assert refs.outcome(failed, str(path)) is failed
    assert not path.exists()


@pytest.mark.parametrize(
    ("data", "told"), [(b"x" * 10_001, "more than 10,000 bytes"), (b"\xff\xfe", "not UTF-8")]
)
def test_what_is_no_reference_fails_the_run(
    refs: OutputRefs, path: Path, data: bytes, told: str
) -> None:
    path.write_bytes(data)
    outcome = refs.outcome(DONE, str(path))
    assert (outcome.status, outcome.reason) == ("failed", "output")
    assert told in (outcome.error or "")
    assert "DUEBOOK_OUTPUT" in (outcome.error or "")


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_the_node_reads_nothing_but_a_file(
    refs: OutputRefs, path: Path, tmp_path: Path, kind: str
) -> None:
    """A command may run as another user than its node, and must not use the node's rights."""
    secret = tmp_path / "secret"
    secret.write_text("of the node")
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    outcome = refs.outcome(DONE, str(path))
    assert (outcome.status, outcome.output_ref) == ("failed", None)
    assert "of the node" not in (outcome.error or "")


def test_the_directory_is_only_for_the_user_of_the_commands_and_goes_with_the_node() -> None:
    with OutputRefs() as refs:
        directory = Path(refs.path(claim_of({"command": ["true"]}))).parent
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not directory.exists()
