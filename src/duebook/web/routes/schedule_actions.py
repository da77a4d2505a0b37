"""The actions of a schedule: each has a page that asks, and a form that does it."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.book.schedule_reader import LAST
from duebook.errors import Conflict, Invalid, json_problem, shorten
from duebook.model.access import Role
from duebook.model.edited import Edited
from duebook.model.schedule import InvalidSchedule
from duebook.model.unreadable import blank_spec
from duebook.planner import DueTimes
from duebook.timetext import format_instant, parse_instant
from duebook.web.changes import differences
from duebook.web.definitions import (
    ABOUT,
    FIELDS,
    TZ,
    Unreadable,
    changes_of,
    plain_lines,
    texts_of,
)
from duebook.web.due_times import due_rows
from duebook.web.kinds import read_kinds, same_value
from duebook.web.known_names import known_names
from duebook.web.notices import LONGEST_REASON
from duebook.web.page_request import CurrentPage, Form, Submitted

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["operations"]

operations = Operations("/schedules/{name}", "pages")


def _ask(
    page: CurrentPage, name: str, action: str, problem: str = "", status: int = 200, **values: Any
) -> Response:
    """The page that asks for confirmation."""
    schedule = page.book.schedules.get(name)
    common = {"schedule": schedule, "action": action, "problem": problem, "given": {}}
    common["next_due_at"] = schedule.next_due_at
    return page.render("action.html", status, **(common | values))


@operations("GET", "/pause", Role.OPERATOR)
def ask_pause(page: CurrentPage, name: str) -> Response:
    """Confirm pausing it."""
    return _ask(page, name, "pause")


@operations("POST", "/pause", Role.OPERATOR)
def do_pause(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Pause it."""

    def work(book: Book) -> Answer:
        until = page.read_end(form, book)
        paused = book.schedules.pause(name, form.get("reason"), until)
        since = paused.paused_at and format_instant(paused.paused_at)
        return page.go("schedules", paused.name, done="pause", since=since)

    return page.write(form, work, _again(page, name, "pause", form))


@operations("POST", "/resume", Role.OPERATOR)
def do_resume(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Resume it; undoing a pause does not end a later pause by another user."""

    def work(book: Book) -> Answer:
        was = book.schedules.get(name)
        since, until = (at and format_instant(at) for at in (was.paused_at, was.paused_until))
        if form["since"] and since and form["since"] != since:
            raise Conflict(f"it has been paused again since, at {since}")
        resumed = book.schedules.resume(name)
        why = (was.pause_reason or "")[:LONGEST_REASON]
        return page.go("schedules", resumed.name, done="resume", reason=why, until=until)

    return page.write(form, work, _again(page, name, "resume", form))


@operations("GET", "/resume", Role.OPERATOR)
def ask_resume(page: CurrentPage, name: str) -> Response:
    """Confirm resuming it."""
    return _ask(page, name, "resume")


@operations("GET", "/run", Role.OPERATOR)
def ask_run(page: CurrentPage, name: str) -> Response:
    """Confirm running it now, with an optional payload."""
    return _ask(page, name, "run")


@operations("POST", "/run", Role.OPERATOR)
def do_run(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Run it now."""

    def work(book: Book) -> Answer:
        run = book.schedules.trigger(name, _payload(form["payload"]))
        return page.go("schedules", run.schedule or name, done="run", run=run.id)

    return page.write(form, work, _again(page, name, "run", form))


def _payload(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"payload is not valid JSON: {json_problem(error)}") from None
    if not isinstance(value, dict):
        raise Invalid(f"payload {shorten(value)} is not a JSON object")
    return value


@operations("GET", "/move", Role.OPERATOR)
def ask_move(page: CurrentPage, name: str) -> Response:
    """The form to move its next due time."""
    return _ask(page, name, "move", next_due_at=_upcoming(page.book, name))


@operations("POST", "/move", Role.OPERATOR)
def do_move(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Move only the next due time."""

    def work(book: Book) -> Answer:
        if not form["at"]:
            raise Invalid("at is missing; choose a time")
        at, was = page.read_time("at", form["at"]), _upcoming(book, name)
        said = book.schedules.exceptions(name)
        moved = book.schedules.reschedule(name, at, form.get("due"))
        if at <= book.insights.now():
            return page.go("schedules", moved.name, done="move-now")
        twice = any(one.kind == "moved_here" and one.due_at == was for one in said)
        done, back = "move-again" if twice else "move", was and format_instant(was)
        return page.go("schedules", moved.name, done=done, at=back, due=format_instant(at))

    return page.write(form, work, _again(page, name, "move", form))


def _upcoming(book: Book, name: str) -> datetime | None:
    """The due time that a move or skip applies to."""
    schedule = book.schedules.get(name)
    if schedule.spec is None or schedule.status != "active":
        return None
    return next(iter(book.schedules.preview(name, 1)), None)


@operations("GET", "/skip-next", Role.OPERATOR)
def ask_skip_next(page: CurrentPage, name: str) -> Response:
    """Confirm skipping the next due time."""
    return _ask(page, name, "skip-next", next_due_at=_upcoming(page.book, name))


@operations("POST", "/skip-next", Role.OPERATOR)
def do_skip_next(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Skip the next due time."""

    def work(book: Book) -> Answer:
        schedule, skipped = book.schedules.skip_next(name, form.get("due"))
        return page.go("schedules", schedule.name, done="skip-next", at=format_instant(skipped))

    return page.write(form, work, _again(page, name, "skip-next", form))


@operations("GET", "/restore", Role.OPERATOR)
def ask_restore(
    page: CurrentPage, name: str, at: Annotated[str, Query(max_length=40)] = ""
) -> Response:
    """Confirm undoing the skip or move of a due time. Raises InvalidTime."""
    schedule = page.book.schedules.get(name)
    moment = parse_instant(at)
    said = page.book.schedules.exceptions(schedule.id)
    if not any(one.due_at == moment and one.kind in ("skip", "moved_away") for one in said):
        told = f"due time {format_instant(moment)} is no longer skipped or moved"
        back = ("schedules", schedule.name)
        return page.render("refused.html", 409, problem=told, back=back)
    return _ask(page, schedule.name, "restore", given={"at": format_instant(moment)})


@operations("POST", "/restore", Role.OPERATOR)
def do_restore(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Undo the skip or move of a future due time."""

    def work(book: Book) -> Answer:
        restored = book.schedules.restore(name, form["at"])
        return page.go("schedules", restored.name, done="restore")

    def again(problem: str, status: int) -> Response:
        back = ("schedules", page.book.schedules.get(name).name)
        return page.render("refused.html", status, problem=problem, back=back)

    return page.write(form, work, again)


@operations("GET", "/delete", Role.OPERATOR)
def ask_delete(page: CurrentPage, name: str) -> Response:
    """Confirm deleting it."""
    return _ask(page, name, "delete")


@operations("POST", "/delete", Role.OPERATOR)
def do_delete(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Delete it; its history stays."""

    def work(book: Book) -> Answer:
        schedule = book.schedules.get(name)
        book.schedules.delete(schedule.id, _version(form))
        return page.go("schedules", done="deleted", name=schedule.name, id=schedule.id)

    return page.write(form, work, _again(page, name, "delete", form))


def _again(page: CurrentPage, name: str, action: str, form: Form) -> Any:
    given = {field: form[field] for field in form.fields}

    def again(problem: str, status: int) -> Response:
        about = {"next_due_at": _upcoming(page.book, name), "given": given}
        return _ask(page, name, action, problem, status, **about)

    return again


# -- edit: first a preview, then the new definition


@operations("GET", "/edit", Role.OPERATOR)
def ask_edit(page: CurrentPage, name: str) -> Response:
    """The form with its definition."""
    schedule, spec = _definition(page, name)
    return _edit_page(page, schedule, spec, texts_of(spec))


@operations("POST", "/edit", Role.OPERATOR)
def do_edit(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Preview the changes, or save them."""
    schedule, spec = _definition(page, name)
    given = _given(spec, form)
    version = _version(form)
    began = None if version == schedule.version else version

    def work(book: Book) -> Answer:
        if began is not None:
            raise Conflict(f"version {schedule.version} is in use")
        missed = book.schedules.preview_update(schedule.id, **changes).missed
        book.schedules.update(name, version=version, **changes)
        span = (missed.start, missed.end) if missed else ()
        told = dict(zip(("since", "until"), map(format_instant, span), strict=False))
        return page.go("schedules", schedule.name, done="edit", version=schedule.version, **told)

    if form["step"] == "edit":  # back from the preview, with what was typed
        return _edit_page(page, schedule, spec, given, version=version)
    saves = form["step"] == "save"
    if began is not None and not saves:
        return _overtaken(page, schedule, spec, given, began)
    try:
        changes = {} if began is not None else changes_of(spec, given)
        if not saves:
            with page.ask.computing() as book:
                edited = book.schedules.preview_update(schedule.id, **changes)
                return _preview_page(page, schedule, given, edited)
        return page.write(form, work)  # when sent twice, the first made the newer version
    except Unreadable as error:
        with page.ask.computing() as book:
            told = error.with_others(
                lambda rest: book.schedules.preview_update(schedule.id, **rest)
            )
        return _edit_page(page, schedule, spec, given, told, 422)
    except InvalidSchedule as error:
        return _edit_page(page, schedule, spec, given, error.problems, 422)
    except (Invalid, Conflict) as error:
        if began is not None:
            return _overtaken(page, schedule, spec, given, began)
        return _edit_page(page, schedule, spec, given, {"": str(error)}, 409)


def _given(spec: ScheduleSpec, form: Form) -> dict[str, str]:
    """The submitted texts; a value typed in another notation becomes the text that was shown."""
    shown = texts_of(spec)
    sent = {field.name: form[field.name] for field in FIELDS if field.name in form.fields}
    kinds = read_kinds(form.texts)
    same = {name: shown[name] for name, text in kinds.items() if same_value(text, shown[name])}
    return shown | sent | kinds | same


def _overtaken(
    page: CurrentPage, schedule: Schedule, spec: ScheduleSpec, given: dict[str, str], version: int
) -> Response:
    """Another version was saved meanwhile: show its fields with the changes of this form."""
    began = texts_of(_revision(page, schedule.id, str(version)))
    current = texts_of(spec)
    both = {
        name: current[name] if plain_lines(text) == began[name].strip() else text
        for name, text in given.items()
    }
    problem = (
        f"version {schedule.version} was saved while you edited version {version}; "
        "the fields below are the new version with your changes"
    )
    return _edit_page(page, schedule, spec, both, {"": problem}, 409)


def _definition(page: CurrentPage, name: str) -> tuple[Schedule, ScheduleSpec]:
    schedule = page.book.schedules.get(name)
    if schedule.spec is None:
        raise Conflict(f'schedule "{name}": {schedule.problem}')
    return schedule, schedule.spec


def _version(form: Form, field: str = "version") -> int | None:
    text = form[field]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _edit_page(
    page: CurrentPage,
    schedule: Schedule,
    spec: ScheduleSpec,
    given: dict[str, str],
    problems: dict[str, str] | None = None,
    status: int = 200,
    version: int | None = None,
) -> Response:
    """`version` is the one that the edit started from."""
    shown = [field for field in FIELDS if field.name != "target" or page.may(Role.ADMIN)]
    values: dict[str, Any] = {"schedule": schedule, "fields": shown, "given": given}
    values |= {"problems": problems or {}, "version": version or schedule.version}
    about = ABOUT - (len(FIELDS) - len(shown))
    return page.render(
        "edit.html", status, spec=spec, about=about, tz_field=TZ, known=known_names(page), **values
    )


def _preview_page(
    page: CurrentPage,
    schedule: Schedule,
    given: dict[str, str],
    edited: Edited,
    version: str | None = None,
) -> Response:
    now = page.clock().now
    return page.render(
        "edit_preview.html",
        schedule=schedule,
        given=given,
        revision=version,
        before=edited.before,
        after=edited.after,
        differences=differences(edited.before, edited.after),
        was=due_rows(edited.before, edited.was_due, now),
        will=due_rows(edited.after, edited.will_be_due, now),
        gone=set(edited.was_due) - set(edited.will_be_due),
        new=set(edited.will_be_due) - set(edited.was_due),
        warnings=[w for t in edited.after.triggers for w in t.warnings(now)],
        missed=edited.missed,
    )


@operations("GET", "/version", Role.OPERATOR)
def ask_version(
    page: CurrentPage, name: str, version: Annotated[str, Query(max_length=20)] = ""
) -> Response:
    """Confirm restoring an earlier definition, with a preview of the changes."""
    schedule = page.book.schedules.get(name)
    earlier = _revision(page, name, version)
    given = {"over": str(schedule.version), "version": version}
    with page.ask.computing() as book:
        edited = _edited(book, schedule, earlier)
        return _preview_page(page, schedule, given, edited, version)


def _edited(book: Book, schedule: Schedule, earlier: ScheduleSpec) -> Edited:
    """The changes that restoring an earlier definition would make."""
    if schedule.spec is None:
        book.rights.refuse_secrets(earlier)
        book.store.read(lambda tx: book.rights.refuse(tx, earlier.target))
        now = book.insights.now()
        due = DueTimes(earlier, (), now, schedule.name, book.budget).among(now, LAST)
        return Edited(blank_spec(), earlier, [], list(islice(due, 10)))
    names = {**schedule.spec.to_json(), **earlier.to_json()}
    changes: dict[str, Any] = {name: earlier.to_json().get(name) for name in names}
    return book.schedules.preview_update(schedule.id, **changes)


@operations("POST", "/version", Role.OPERATOR)
def do_version(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Restore an earlier definition, if the version that the form showed is still current."""
    schedule = page.book.schedules.get(name)
    definition = _revision(page, name, form["version"]).to_json()

    def work(book: Book) -> Answer:
        over = _version(form, "over") or schedule.version
        book.schedules.replace(schedule.id, version=over, **definition)
        return page.go("schedules", schedule.name, done="version", version=over)

    def again(problem: str, status: int) -> Response:
        back = ("schedules", schedule.name)
        return page.render("refused.html", status, problem=problem, back=back)

    return page.write(form, work, again)


def _revision(page: CurrentPage, name: str, version: str) -> ScheduleSpec:
    found = [r for r in page.book.schedules.revisions(name) if str(r.version) == version]
    if not found or found[0].spec is None:
        raise Invalid(f'this schedule has no version "{shorten(version)}"')
    return found[0].spec
