"""Sessions of documents: what is read from a page, and what counts as the same output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.sessions import Step, alike, run_page, steps

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """\
Save this as `names.json`:

```json
[]
```

```console
$ duebook add hello --every 10s \\
    -- echo hello
added hello
$ ls
$ duebook ls
```

```text
$ duebook rm hello
```
"""


def test_commands_and_files_are_read_in_their_order(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, "utf-8")
    assert list(steps(page)) == [
        Step("file", "names.json", "[]\n"),
        Step("command", "duebook add hello --every 10s \\\n    -- echo hello", "added hello"),
        Step("command", "duebook ls", ""),
    ]


def test_the_commands_of_a_page_share_a_database(tmp_path: Path) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "here"
    page.write_text(PAGE, "utf-8")
    folder.mkdir()
    (_, _, added), (_, _, listed) = run_page(page, folder)
    assert added.startswith("added hello: Every 10 seconds")
    assert "hello" in listed
    assert (folder / "names.json").read_text() == "[]\n"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("next due 06:34:59 UTC (in 1 h)", "next due 2026-11-18 06:34:59 UTC (in 1 d 2 h)"),
        ("queued run 01a1e800-5bcb", "queued run 01a1e900-ffff-72dd-aa1c-c4378fa6e30d"),
        ("a    b", "a b"),
        ("dbk_…", "dbk_01a1-x"),
    ],
)
def test_times_ids_and_widths_may_differ(shown: str, printed: str) -> None:
    assert alike("duebook ls", shown, printed)
    assert not alike("duebook ls", shown, f"{printed} more")
