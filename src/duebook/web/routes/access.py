"""The audit log; and, for admins, the tokens, which are created and revoked here."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Invalid
from duebook.model.access import Role
from duebook.model.change import KINDS
from duebook.model.listing import Listing
from duebook.timetext import parse_duration
from duebook.web.page_request import CurrentPage, Form, Submitted

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.change import Change

__all__ = ["operations"]

operations = Operations("", "pages")

PAGE: Final = 50
Text = Annotated[str | None, Query(max_length=200)]


@operations("GET", "/audit", Role.VIEWER)
def get_audit(
    page: CurrentPage,
    kind: Text = None,
    subject: Text = None,
    by: Text = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """The audit log, newest first; admins of all namespaces also see changes outside namespaces."""
    asked: dict[str, Any] = {"kind": kind, "subject": subject, "by": by}
    given = {name: value for name, value in asked.items() if value}
    everywhere = page.may(Role.ADMIN) and page.caller.everywhere
    wrong, status = None, 200

    def load(book: Book) -> tuple[Listing[Change], dict[str, str]]:
        found = book.audit.list(**given, cursor=cursor, limit=PAGE, everywhere=everywhere)
        return found, book.insights.living([one.subject for one in found if one.kind == "schedule"])

    try:
        found, living = page.shared(load, everywhere)
    except Invalid as error:
        found, living, wrong, status = Listing(), {}, str(error), 400
    return page.render(
        "audit.html",
        status,
        changes=found,
        living=frozenset(living.values()),
        next_cursor=found.next_cursor,
        asked={name: value or "" for name, value in asked.items()},
        query=given,
        kinds=KINDS,
        everywhere=everywhere,
        first=cursor is None,
        wrong=wrong,
    )


@operations("GET", "/tokens", Role.ADMIN, everywhere=True)
def get_tokens(page: CurrentPage) -> Response:
    """Every token, without its secret."""
    return _page(page)


@operations("GET", "/tokens/new", Role.ADMIN, everywhere=True)
def ask_create_token(page: CurrentPage) -> Response:
    """The form for a new token."""
    return _ask(page, {"name": "", "role": "viewer", "namespaces": page.ask.namespace, "lasts": ""})


@operations("POST", "/tokens", Role.ADMIN, everywhere=True)
def do_create_token(page: CurrentPage, form: Submitted) -> Response:
    """Create a token; its secret is shown only once."""

    def work() -> Response:
        names = form["namespaces"].replace(",", " ").split()
        if not names:
            raise Invalid("namespaces is missing; list some, or write * for all")
        expires_at = None
        if form["lasts"]:
            expires_at = page.book.insights.now() + _length(form["lasts"])
        token, secret = page.book.tokens.create(form["name"], form["role"], names, expires_at)
        return _page(page, made=token.name, secret=secret)

    return page.attempt(work, lambda problem, status: _ask(page, _given(form), problem, status))


@operations("GET", "/tokens/{name}/revoke", Role.ADMIN, everywhere=True)
def ask_revoke(page: CurrentPage, name: str) -> Response:
    """Confirm revoking it."""
    found = [token for token in page.book.tokens.list() if name in (token.name, token.id)]
    return page.render("token_revoke.html", 200 if found else 404, name=name, found=bool(found))


@operations("POST", "/tokens/{name}/revoke", Role.ADMIN, everywhere=True)
def do_revoke(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Revoke it."""

    def work(book: Book) -> Answer:
        book.tokens.revoke(name)
        return page.go("tokens")

    def again(problem: str, status: int) -> Response:
        return page.render("refused.html", status, problem=problem, back=("tokens",))

    return page.write(form, work, again)


def _length(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except Invalid as error:
        raise Invalid(f"lasts: {error}") from None


def _given(form: Form) -> dict[str, str]:
    return {name: form[name] for name in ("name", "role", "namespaces", "lasts")}


def _ask(
    page: CurrentPage, given: dict[str, str], problem: str = "", status: int = 200
) -> Response:
    roles = [str(role) for role in Role]
    return page.render("token_new.html", status, given=given, problem=problem, roles=roles)


def _page(page: CurrentPage, made: str = "", secret: str = "") -> Response:
    tokens = page.shared(lambda book: book.tokens.list())
    return page.render("tokens.html", tokens=tokens, made=made, secret=secret)
