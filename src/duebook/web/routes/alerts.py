"""Alerts: open and past problems, and the rules that find them; saving, silencing, testing and
deleting a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.model.access import Role
from duebook.timetext import parse_duration
from duebook.web.labels import labels_text, read_pairs
from duebook.web.page_request import CurrentPage, Submitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.book import Book
    from duebook.model.alert import AlertRule

__all__ = ["operations"]

operations = Operations("", "pages")

LISTED: Final = 50
"""Problems in each list on the page, the open and the past one."""
GIVEN: Final = ("name", "on", "to", "schedule", "labels", "group", "repeat", "limit")
NEW: Final = {"on": "failure recovered", "group": "1m", "repeat": "1d", "limit": "20"}
ACTIONS: Final = ("delete", "silence", "test")
SILENCES: Final = ("1h", "8h", "1d", "1w")


@operations("GET", "/alerts", Role.VIEWER)
def get_alerts(page: CurrentPage) -> Response:
    """The problems and the rules."""

    def load(book: Book) -> dict[str, Any]:
        history = book.alerts.history(LISTED)
        return {
            "now": book.insights.now(),
            "rules": book.alerts.list(),
            "open": book.alerts.history(LISTED, only_open=True),
            "over": [alert for alert in history if alert.resolved_at is not None],
        }

    done, name = page.told.get("done", ""), page.told.get("name")
    seen = page.shared(load)
    known = {rule.name for rule in seen["rules"]}
    notice = _WORDS.get(done, "") if done == "deleted" or name in known else ""
    return page.render("alerts.html", **seen, told=notice, about=name or "")


_WORDS: Final = {
    "saved": "Saved rule",
    "deleted": "Deleted rule",
    "silenced": "Silenced rule",
    "unsilenced": "Messages are sent again for rule",
    "tested": "A test message is on its way to every channel of rule",
}


@operations("GET", "/alerts/new", Role.OPERATOR)
def ask_save_rule(page: CurrentPage) -> Response:
    """The form for a new or an existing rule."""
    name = page.request.query_params.get("name")
    given = dict.fromkeys(GIVEN, "") | NEW
    if name is None:
        return _form_page(page, given)
    rule = page.book.alerts.get(name)
    return _form_page(page, given | _given(rule), rule=rule, former=rule.name)


def _given(rule: AlertRule) -> dict[str, str]:
    return {
        "name": rule.name,
        "on": " ".join(rule.on),
        "schedule": rule.schedule or "",
        "labels": labels_text(rule.labels),
        "group": rule.group,
        "repeat": rule.repeat or "",
        "limit": str(rule.limit),
    }


@operations("POST", "/alerts", Role.OPERATOR)
def do_save_rule(page: CurrentPage, form: Submitted) -> Response:
    """Save a rule."""
    given = {name: form[name] for name in GIVEN}
    former = form["former"]

    def again(problem: str, status: int) -> Response:
        hidden = given | {"to": ""}  # channel addresses are secrets
        return _form_page(page, hidden, problem, status, former=former)

    def save(book: Book) -> Answer:
        if given["name"] != former and _exists(book, given["name"]):
            raise Conflict(f'alert rule "{shorten(given["name"])}" exists; choose another name')
        rule = book.alerts.save(given["name"], **_read(given))
        return page.go("alerts", done="saved", name=rule.name)

    return page.write(form, save, again)


def _exists(book: Book, name: str) -> bool:
    return any(rule.name == name for rule in book.alerts.list())


def _read(given: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a rule. Raises Invalid."""
    if not given["limit"].isdecimal():
        raise Invalid("limit is not a whole number")
    return {
        "on": given["on"].replace(",", " ").split(),
        "to": given["to"].split() or None,
        "schedule": given["schedule"] or None,
        "labels": read_pairs(given["labels"]) or None,
        "group": given["group"] or "0s",
        "repeat": given["repeat"] or None,
        "limit": int(given["limit"][:6]),
    }


def _form_page(
    page: CurrentPage,
    given: dict[str, str],
    problem: str = "",
    status: int = 200,
    rule: AlertRule | None = None,
    former: str = "",
) -> Response:
    """`former` is the name of the rule being edited, which the form may keep."""
    values = {"given": given, "problem": problem, "rule": rule, "former": former}
    return page.render("alert_rule.html", status, **values)


@operations("GET", "/alerts/{name}/{action}", Role.OPERATOR)
def ask_rule_action(page: CurrentPage, name: str, action: str) -> Response:
    """Confirm deleting, silencing or testing a rule."""
    return _ask(page, name, action)


@operations("POST", "/alerts/{name}/{action}", Role.OPERATOR)
def do_rule_action(page: CurrentPage, name: str, action: str, form: Submitted) -> Response:
    """Delete, silence or test a rule."""

    def work(book: Book) -> Answer:
        done = _act(book, name, _known(action), form.get("for"))
        return page.go("alerts", done=done, name=name)

    def again(problem: str, status: int) -> Response:
        return _ask(page, name, action, problem, status)

    return page.write(form, work, again)


def _act(book: Book, name: str, action: str, length: str | None) -> str:
    """Do it, and return what was done."""
    if action == "delete":
        book.alerts.remove(name)
        return "deleted"
    if action == "test":
        book.alerts.test(name)
        return "tested"
    until = None if length is None else book.insights.now() + parse_duration(length)
    book.alerts.silence(name, until)
    return "unsilenced" if until is None else "silenced"


def _known(action: str) -> str:
    if action not in ACTIONS:
        raise NotFound(f'"{shorten(action)}" is not an action of an alert rule')
    return action


def _ask(
    page: CurrentPage, name: str, action: str, problem: str = "", status: int = 200
) -> Response:
    values = {"action": _known(action), "problem": problem, "silences": SILENCES}
    now = page.book.insights.now()
    rule = page.book.alerts.get(name)
    return page.render("alert_action.html", status, rule=rule, now=now, **values)
