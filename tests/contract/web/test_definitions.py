"""The forms of definitions: all problems are reported together, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

WRONG = {"trigger": "61 * * * *", "payload": "{", "timeout": "soon"}
TOLD = ("trigger-problem", "payload-problem", "timeout-problem")


def test_every_wrong_field_of_a_new_schedule_is_told_at_once(admin: Browser) -> None:
    page = admin.send(admin.ok("/new"), "/new", name="My Job", target="true", **WRONG)
    assert page.status == 422
    for told in ("name-problem", *TOLD):
        assert f'id="field-{told}"' in page.source
    assert 'id="field-target-problem"' not in page.source


def test_every_wrong_field_of_an_edit_is_told_at_once(admin: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    page = admin.send(admin.ok("/schedules/job/edit"), "/schedules/job/edit", **WRONG)
    assert page.status == 422
    for told in TOLD:
        assert f'id="field-{told}"' in page.source


def test_a_schedule_is_made_of_a_kind_and_a_short_text(admin: Browser, book: Book) -> None:
    kinds = {"trigger_kind": "daily", "trigger": "07:00, 17:30", "tz": "Europe/Brussels"}
    target = {"target_kind": "command", "target": "echo 'two words'"}
    preview = admin.send(admin.ok("/new"), "/new", name="job", **kinds, **target)
    assert "At 07:00 and 17:30 every day (Europe/Brussels)" in preview.text
    shown = preview.form("/new")["fields"]
    assert (shown["trigger_kind"], shown["trigger"]) == ("daily", "07:00, 17:30")
    assert (shown["target_kind"], shown["target"]) == ("command", "echo 'two words'")
    admin.send(preview, "/new", step="save")
    spec = book.schedules.get("job").spec
    assert spec is not None
    assert spec.to_json()["target"] == {"command": ["echo", "two words"]}
    assert spec.to_json()["trigger"] == {"daily": ["07:00", "17:30"], "tz": "Europe/Brussels"}


def test_an_edit_keeps_what_a_kind_shows(admin: Browser, book: Book) -> None:
    trigger = {"cron": "30 2 * * *", "tz": "Europe/Brussels"}
    book.schedules.create("job", trigger=trigger, target={"command": ["echo", "a b"]})
    page = admin.ok("/schedules/job/edit")
    shown = page.form("/schedules/job/edit")["fields"]
    assert (shown["trigger"], shown["tz"]) == ("30 2 * * *", "Europe/Brussels")
    assert shown["target"] == "echo 'a b'"
    same = admin.send(page, "/schedules/job/edit", step="preview")
    assert "No changes" in same.text
    later = admin.send(page, "/schedules/job/edit", step="preview", trigger="30 3 * * *")
    assert "Change job?" in later.text
    admin.send(later, "/schedules/job/edit", step="save")
    assert book.schedules.get("job").spec.to_json()["trigger"] == trigger | {"cron": "30 3 * * *"}  # type: ignore[union-attr]


def test_a_new_schedule_starts_from_a_template(admin: Browser, book: Book) -> None:
    book.templates.save("nightly", trigger={"cron": "0 3 * * *"}, queue="heavy", retry=3)
    page = admin.ok("/new")
    assert "/new?template=nightly" in page.links
    fields = admin.ok("/new?template=nightly").form("/new")["fields"]
    assert (fields["trigger"], fields["queue"]) == ("0 3 * * *", "heavy")
    assert fields["overlap"] == "skip"
    assert admin.get("/new?template=unknown").status == 404


def test_forms_offer_the_names_that_are_known(admin: Browser, book: Book) -> None:
    book.calendars.save("holidays", dates=["2026-12-25"])
    book.queues.limit("heavy", 2)
    page = admin.ok("/new")
    assert '<option value="heavy"></option>' in page.source
    assert '<option value="Europe/Brussels"></option>' in page.source
    assert "Calendars: holidays" in page.text
    assert len(page.source) < 100_000


def test_a_trigger_says_when_it_would_be_due(viewer: Browser) -> None:
    page = viewer.ok("/next", trigger="30 2 * * *", trigger_kind="cron", tz="Europe/Brussels")
    assert "At 02:30 every day (Europe/Brussels)" in page.text
    assert page.source.count("<time ") >= 5
    assert "minute" in viewer.ok("/next", trigger="61 * * * *", trigger_kind="cron").text
    assert 'id="next"' not in viewer.ok("/next").source
    none = viewer.ok("/next", trigger="every", trigger_kind="every", exclude="[")
    assert "Exclude is not valid JSON" in none.text
