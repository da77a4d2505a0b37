"""The event log, its consumers and their positions, and their dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Invalid, NotFound, shorten
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.event import EventPage
from duebook.web.folding import group_letters
from duebook.web.page_request import CurrentPage, Form, Submitted

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.consumer import Consumer

__all__ = ["operations"]

operations = Operations("", "pages")

SHOWN: Final = 50
TOPICS: Final = 50
LETTERS: Final = 100
NONE: Final = "none"
"""Never the id of an event: keeps a cause without dead letters from selecting all of them."""
Text = Annotated[str | None, Query(max_length=300)]


@operations("GET", "/events", Role.VIEWER)
def get_events(
    page: CurrentPage,
    topic: Text = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """The events, newest first, with the consumers and the dead letters."""

    def load(book: Book) -> dict[str, Any]:
        events = book.events
        found, wrong = EventPage((), None, 0), ""
        try:
            found = events.page(topic or None, limit=SHOWN, newest=True, cursor=cursor)
        except Invalid as error:
            wrong = str(error)
        return {
            "end": page.ask.shown(events.position()),
            "topics": events.topics()[:TOPICS],
            "events": found,
            "next_cursor": found.next_cursor,
            "readers": _readers(book),
            "letters": (letters := events.dead_letters(limit=LETTERS)),
            "groups": group_letters(letters),
            "wrong": wrong,
        }

    seen = page.shared(load)
    status = 400 if seen["wrong"] else 200
    return page.render("events.html", status, topic=topic or "", first=cursor is None, **seen)


def _readers(book: Book) -> list[dict[str, Any]]:
    lags = {lag.consumer: lag for lag in book.events.lags()}
    return [{"reader": one, "lag": lags.get(one.name)} for one in book.events.consumers()]


@operations("GET", "/events/{event_id}", Role.VIEWER)
def get_event(page: CurrentPage, event_id: str) -> Response:
    """One event, with its data and where it comes from."""
    return page.render("event.html", event=page.shared(lambda book: book.events.get(event_id)))


@operations("GET", "/readers/{name}", Role.VIEWER)
def get_reader(page: CurrentPage, name: str) -> Response:
    """A group or a sink, with its position and its dead letters."""

    def load(book: Book) -> dict[str, Any]:
        lags = [lag for lag in book.events.lags() if lag.consumer == name]
        return {
            "reader": _reader(book, name),
            "lag": lags[0] if lags else None,
            "partitions": book.events.partitions(name),
            "end": page.ask.shown(book.events.position()),
            "letters": (letters := book.events.dead_letters(name, LETTERS)),
            "groups": group_letters(letters),
        }

    seen = page.shared(load)
    options = encode(seen["reader"])["options"]
    done = page.told.get("done")
    return page.render("reader.html", options=options, done=DONE.get(done or ""), **seen)


DONE: Final = {
    "replay": "Events after that position will be delivered again.",
    "replay-dead": "The dead letters will be delivered again.",
    "drop-dead": "The dead letters were discarded.",
}


def _reader(book: Book, name: str) -> Consumer:
    found = [one for one in book.events.consumers() if one.name == name]
    if not found:
        raise NotFound(f'there is no group or sink "{shorten(name)}"')
    return found[0]


@operations("GET", "/readers/{name}/{action}", Role.OPERATOR)
def ask_reader(
    page: CurrentPage, name: str, action: str, event: Text = None, cause: Text = None
) -> Response:
    """Confirm replaying events after a position, or replaying or discarding dead letters."""
    return _ask(page, name, action, [event] if event else [], cause or "")


@operations("POST", "/readers/{name}/{action}", Role.OPERATOR)
def do_reader(page: CurrentPage, name: str, action: str, form: Submitted) -> Response:
    """Do it."""

    def work(book: Book) -> Answer:
        _do(book, name, action, form)
        return page.go("readers", name, done=action)

    def again(problem: str, status: int) -> Response:
        return _ask(page, name, action, _chosen(form), "", problem, status)

    return page.write(form, work, again)


def _do(book: Book, name: str, action: str, form: Form) -> None:
    events = book.events
    match action:
        case "replay":
            place = form["after"]
            if not (place.isascii() and place.isdecimal() and len(place) < 19):
                raise Invalid(f"position {shorten(place)} is not a whole number, 0 or greater")
            events.replay(name, after=int(place))
        case "replay-dead":
            for event in _chosen(form) or (None,):
                events.replay_dead(name, event)
        case "drop-dead":
            for event in _chosen(form) or (None,):
                events.drop_dead(name, event)
        case _:
            raise NotFound(f'"{shorten(action)}" is not an action for consumers')


def _chosen(form: Form) -> list[str]:
    """The ids of the chosen events; empty for all dead letters."""
    return [event for event in form.all("event") if event]


def _ask(
    page: CurrentPage,
    name: str,
    action: str,
    events: list[str],
    cause: str,
    problem: str = "",
    status: int = 200,
) -> Response:
    if action not in DONE:
        raise NotFound(f'"{shorten(action)}" is not an action for consumers')
    book = page.book
    reader, letters = _reader(book, name), book.events.dead_letters(name, LETTERS)
    if cause:
        alike = [group for group in group_letters(letters) if group.key == cause]
        waiting = [one for group in alike for one in group.letters if not one.again]
        events = [letter.event.id for letter in waiting] or [NONE]
    shown = [letter for letter in letters if not events or letter.event.id in events]
    return page.render(
        "reader_action.html",
        status,
        reader=reader,
        action=action,
        chosen=events,
        letters=shown,
        more=not events and len(shown) == LETTERS,
        end=page.ask.shown(book.events.position()),
        problem=problem,
    )
