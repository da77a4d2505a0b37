"""What the tests are installed from: pinned, with hashes, from no named place; licences listed."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from tools.audit import judge
from tools.licences import PAGE, page
from tools.lock import LOCK, ROOT, RUN_LOCK, File, choose, fits, is_of, normal, pinned

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SETS = ("postgres", "kafka", "dev")
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+) \\$")
_HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def locked(lock: Path = LOCK) -> dict[str, str]:
    lines = lock.read_text().splitlines()
    return {found[1]: found[2] for line in lines if (found := _PIN.match(line))}


def test_every_package_of_the_tests_is_pinned_with_hashes() -> None:
    for line in LOCK.read_text().splitlines():
        assert line.startswith("#") or _PIN.match(line) or _HASH.match(line), line
    pins = pinned()
    assert {name: pins.get(name) for name in locked()} == locked()


def test_what_the_package_and_its_tests_need_is_locked() -> None:
    extras = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(t for name in SETS for t in extras[name])]
    needed = {normal(re.split(r"[^A-Za-z0-9._-]", text)[0]) for text in texts}
    assert needed - {"duebook"} <= locked().keys()


def test_running_needs_the_package_and_none_of_the_tools_of_the_tests() -> None:
    texts = [*PROJECT["dependencies"], "hatchling", "editables"]
    needed = {normal(re.split(r"[^A-Za-z0-9._-]", text)[0]) for text in texts}
    assert needed <= locked(RUN_LOCK).keys()
    assert not locked(RUN_LOCK).keys() & {"pytest", "mypy", "ruff", "playwright", "django"}
    of_tests = LOCK.read_text()
    for block in re.split(r"\n(?=[a-z])", RUN_LOCK.read_text().rstrip())[1:]:
        assert f"\n{block}\n" in of_tests, "the same versions and hashes; run: make lock"


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-dev.txt", "constraints.txt", "pyproject.toml"]
)
def test_no_address_stands_in_what_is_installed(name: str) -> None:
    assert "://" not in (ROOT / name).read_text()


def test_every_dependency_with_releases_that_break_has_an_upper_bound() -> None:
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["postgres"], *extras["kafka"]]:
        assert "<" in text or text.startswith("tzdata"), text


@pytest.mark.parametrize(
    ("file", "is_taken"),
    [
        ("idna-3.20-py3-none-any.whl", True),
        ("pyyaml-6.0.3-cp314-cp314-manylinux_2_28_x86_64.whl", True),
        ("pyyaml-6.0.3-cp314-cp314-musllinux_1_2_aarch64.whl", True),
        ("cryptography-50.0.2-cp311-abi3-macosx_10_9_universal2.whl", True),
        ("pyyaml-6.0.3-cp314-cp314t-manylinux_2_28_x86_64.whl", False),
        ("pyyaml-6.0.3-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("pyyaml-6.0.3-cp312-cp312-win_amd64.whl", False),
        ("pyyaml-6.0.3-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", False),
        ("pyyaml-6.0.3.tar.gz", False),
    ],
)
def test_files_for_the_machines_of_the_tests_are_taken(file: str, is_taken: bool) -> None:
    assert fits(file) is is_taken
    assert is_of(file, file.partition("-")[0], re.split(r"-|\.tar", file)[1])


def test_the_source_is_taken_where_there_is_no_wheel() -> None:
    source, wheel = File("x-1.tar.gz", "a"), File("x-1-py3-none-any.whl", "b")
    assert choose([source, wheel]) == [wheel]
    assert choose([source]) == [source]


def test_an_audit_says_what_it_found_or_why_it_could_not_look() -> None:
    idna: dict[str, Any] = {"name": "idna", "version": "3.20", "vulns": []}
    assert judge(json.dumps({"dependencies": [idna]}), "") == (
        0,
        "no known vulnerability in 1 packages",
    )
    idna["vulns"] = [{"id": "PYSEC-1", "fix_versions": ["3.21"]}]
    code, told = judge(json.dumps({"dependencies": [idna]}), "")
    assert code == 1
    assert told.startswith("idna 3.20: PYSEC-1, mended in 3.21\n")
    code, told = judge("", "Traceback\nConnectionError: no route")
    assert code == 0
    assert told.startswith("not checked: pip-audit reached no source of advisories")


def test_the_list_of_licences_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: make licences"
    assert "unknown" not in page()
