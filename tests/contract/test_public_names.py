"""Public names of a release stay: after an upgrade, programs find what they call."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.public_names import called_names, public_names, words_of_tables

RELEASES = sorted(Path(__file__).with_name("names").glob("*.txt"))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_every_name_of_a_release_is_there_still(release: Path) -> None:
    gone = {*release.read_text("utf-8").splitlines()} - {*public_names()}
    assert not gone, (
        f"Duebook {release.stem} had these; keep them, or take them out of {release.name} "
        "and mark a behaviour change in CHANGELOG.md"
    )


def test_there_is_a_list_of_names() -> None:
    assert [len(path.read_text("utf-8").splitlines()) > 3_000 for path in RELEASES] == [True]


def test_what_is_called_is_found_with_what_it_takes() -> None:
    page = """\
| [`duebook add`](#duebook-add) | Add a schedule. |
## duebook add
| option | meaning |
| `-n`, `--event, --event-topic TOPIC` | Such as `orders`. |
### book.task
```text
book.task(
    function = None,
    *,
    name: str | None = None,
    **policies,
) -> Any
```
"""
    assert list(called_names(page.splitlines())) == [
        "duebook add",
        "duebook add -n",
        "duebook add --event",
        "duebook add --event-topic",
        "book.task",
        "book.task function",
        "book.task name",
        "book.task **policies",
    ]


def test_words_are_found_with_the_code_beside_them() -> None:
    page = """\
| topic | type |
|---|---|
| `duebook.runs` | `run.failed` |
| `paused` | It was paused (`on_resume=skip`). |
"""
    assert list(words_of_tables(page.splitlines())) == ["duebook.runs run.failed", "paused"]
