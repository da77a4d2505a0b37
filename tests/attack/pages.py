"""Pages, cursors and quotas: numbers of changes that are made up, cursors that are forged or taken
from others, and templates times names. Each is refused, or harms nobody else."""

from __future__ import annotations

import random
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import httpx2

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["forge_cursors", "freeze_pages", "multiply_templates", "run"]

SILENT: Final = 60.0
"""Seconds after which a server counts as silent."""
SEEN_WITHIN: Final = 10.0
"""Seconds after which a live page shows what changed, on a machine that has other things to do."""
NUMBERS: Final = ("999999999999999999", "9" * 40, "1", "0", "-1", "1e9", "٣", "7; x")
LISTS: Final = (
    "schedules?sort=next_due_at&limit=1",
    "schedules?limit=1",
    "schedules?sort=-created_at&limit=1",
    "audit?limit=1",
    "runs?limit=1",
    "events?limit=1&topic=duebook.schedules",
)
JOB: Final = {"cron": "0 0 1 1 *", "target": {"command": ["true"]}}
SPACE: Final = "attack-quota"
ROOM: Final = 1_000_000
"""Bytes that its definitions may have."""
PAYLOAD: Final = 90_000
_PAGE: Final = {"Accept": "text/html"}


def run(url: str, tokens: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """All of them for so long; fails when one does harm."""
    with ExitStack() as stack:
        admin, viewer, stranger = (
            stack.enter_context(
                httpx2.Client(
                    base_url=url,
                    headers={"Authorization": f"Bearer {tokens[role]}"},
                    timeout=SILENT,
                )
            )
            for role in ("admin", "viewer", "stranger")
        )
        over = time.monotonic() + seconds / 2
        rounds = 0
        while time.monotonic() < over:
            freeze_pages(admin, viewer, f"attack-live-{rounds}")
            rounds += 1
        forged = forge_cursors(admin, stranger, random.Random(7), round(10 * seconds))
        made = multiply_templates(admin)
    return {"pages that went on": rounds, "cursors refused": forged, "made by a template": made}


def freeze_pages(admin: Any, viewer: Any, name: str) -> None:
    """A viewer makes numbers up; the live page of another still shows a change soon."""
    headers = _PAGE | {"Duebook-Live": viewer.get("/live").text}
    admin.get("/schedules", headers=headers)
    for number in NUMBERS:
        sent = {**_PAGE, "Duebook-Live": number.encode()}
        assert viewer.get("/schedules", headers=sent).status_code == 200, number
    admin.post("/api/v1/schedules", json=JOB | {"name": name}).raise_for_status()
    deadline = time.monotonic() + SEEN_WITHIN
    while True:
        headers["Duebook-Live"] = admin.get("/live").text
        if name in admin.get("/schedules", headers=headers).text:
            break
        assert time.monotonic() < deadline, f"the live page does not show {name}"
    admin.delete(f"/api/v1/schedules/{name}").raise_for_status()


def forge_cursors(admin: Any, stranger: Any, chance: random.Random, times: int) -> int:
    """Change cursors, make some up, and use those of another namespace; returns how many."""
    names = [f"attack-cursor-{number}" for number in range(3)]
    for name in names:
        admin.post("/api/v1/schedules", json=JOB | {"name": name}).raise_for_status()
    found = {path: admin.get(f"/api/v1/{path}").json()["next_cursor"] for path in LISTS}
    ids = {one["id"] for one in admin.get("/api/v1/schedules").json()["items"]}
    answers: Counter[int] = Counter()
    for path, cursor in found.items():
        if cursor is None:
            continue
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        assert not any(id_.encode() in raw for id_ in ids), path
        asked = f"/api/v1/{path}&cursor="
        assert admin.get(asked + cursor).status_code == 200, path
        assert stranger.get(asked + cursor).status_code == 400, path
        for forged in _forged(raw, chance, max(times // len(LISTS), 1)):
            answers[admin.get(asked + forged).status_code] += 1
    for name in names:
        admin.delete(f"/api/v1/schedules/{name}").raise_for_status()
    assert set(answers) == {400}, answers
    return answers.total()


def _forged(raw: bytes, chance: random.Random, times: int) -> Iterator[str]:
    for _ in range(times):
        changed = bytearray(raw)
        match chance.randrange(4):
            case 0:
                changed[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
            case 1:
                changed = changed[: chance.randrange(1, len(raw))]
            case 2:
                changed += bytes([chance.randrange(256)])
            case _:
                changed = bytearray(b'["0123456789abcdef",1,"x"]')
        yield urlsafe_b64encode(changed).decode().rstrip("=")


def multiply_templates(admin: Any, at_once: int = 5) -> int:
    """Create names from a large template until the quota of a namespace ends it; returns how many
    there were by then."""
    here = {"namespace": SPACE}
    limits = {"definition_bytes": ROOM}
    admin.put(f"/api/v1/namespaces/{SPACE}", json=limits).raise_for_status()
    template = JOB | {"payload": {"text": "x" * PAYLOAD}}
    admin.put("/api/v1/templates/large", json=template, params=here).raise_for_status()
    made = 0
    while made * PAYLOAD <= ROOM:
        forms = [{"name": f"many-{made + n}", "template": "large"} for n in range(at_once)]
        answer = admin.post("/api/v1/bulk/schedules", json={"schedules": forms}, params=here)
        if answer.status_code == 409:
            assert answer.json()["code"] == "quota", answer.text
            break
        answer.raise_for_status()
        made += at_once
    assert made * PAYLOAD <= ROOM, f"{made} schedules were made"
    chosen = {"action": "delete", "filter": {"text": "many-*"}}
    admin.post("/api/v1/bulk/actions", json=chosen, params=here).raise_for_status()
    admin.delete("/api/v1/templates/large", params=here).raise_for_status()
    admin.delete(f"/api/v1/namespaces/{SPACE}").raise_for_status()
    return made
