"""How many descriptors a process asks for, in a process of its own, whose limits those are."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = (
    "import resource, sys; from duebook.descriptors import allow_descriptors;"
    "soft, hard, wanted = map(int, sys.argv[1:]);"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard));"
    "print(allow_descriptors(wanted), *resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "expected"),
    [
        (100, 200, 150, "150 150 200"),
        (100, 200, 500, "200 200 200"),
        (100, 200, 50, "100 100 200"),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_allowed(
    soft: int, hard: int, wanted: int, expected: str
) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(soft), str(hard), str(wanted)]
    found = subprocess.run(argv, capture_output=True, text=True, check=True)  # noqa: S603
    assert found.stdout.strip() == expected
