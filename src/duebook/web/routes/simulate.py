"""The pages for simulations: what schedules would do, and better minutes for them."""

from __future__ import annotations

from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.api.parameters import Depends, Query
from duebook.book.schedule_files import proposed_files
from duebook.errors import Conflict, Invalid, OverBudget, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.timetext import format_instant
from duebook.web.page_request import CurrentPage
from duebook.web.simulation import drawn, drawn_proposal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.model.simulation import SpreadProposal

    T = TypeVar("T")

__all__ = ["operations"]

operations = Operations("", "pages")

DAYS, PERCENTILE, LABEL = "7", "50", "may-move:true"
TOO_MUCH = "choose fewer days, or use the command below with --database, which has no limit"

Text = Annotated[str, Query(max_length=40)]
From = Annotated[str, Query(alias="from", max_length=40)]
Label = Annotated[str, Query(max_length=200)]
Names = Annotated[str, Query(max_length=1_000)]


@dataclass(frozen=True, slots=True)
class ProposedFile:
    """A file of a proposal, as shown on its page."""

    owner: str
    name: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """The submitted form of these pages."""

    is_sent: bool
    given: dict[str, str]
    """the text of each field"""


def _read_form(
    days: Text = "",
    workers: Text = "",
    percentile: Text = PERCENTILE,
    start: From = "",
    label: Label = LABEL,
    names: Names = "",
) -> Outlook:
    given = {"days": days or DAYS, "workers": workers, "percentile": percentile, "from": start}
    return Outlook(bool(days), given | {"label": label, "names": names})


Filled = Annotated[Outlook, Depends(_read_form)]


@operations("GET", "/simulate", Role.OPERATOR)
def get_simulation(page: CurrentPage, form: Filled) -> Response:
    """What would happen in the coming days; just the form if no number of days is given."""

    def simulate() -> dict[str, Any]:
        with page.ask.computing() as book:
            report = _bounded(lambda: book.simulate(**_asked(page, form.given)))
        return drawn(report, page.clock())

    command = _command(page, "simulate", form.given)
    return _show(page, form, "simulate.html", simulate, {"report": None, "command": command})


@operations("GET", "/spread", Role.OPERATOR)
def get_spread(page: CurrentPage, form: Filled) -> Response:
    """Proposed minutes and their effect; just the form if no number of days is given."""

    def propose() -> dict[str, Any]:
        proposal = _propose(page, form.given)
        files = _files(page, proposal, form.given)
        return drawn_proposal(proposal, page.clock()) | {"files": files}

    command = f"{_command(page, 'spread', form.given)} --out {_file_name('')}"
    return _show(page, form, "spread.html", propose, {"proposal": None, "command": command})


def _show(
    page: CurrentPage,
    form: Outlook,
    template: str,
    work: Callable[[], dict[str, Any]],
    empty: dict[str, Any],
) -> Response:
    """The form, and the result of `work` if the form was submitted."""

    def show(problem: str = "", status: int = 200, **found: Any) -> Response:
        return page.render(template, status, given=form.given, problem=problem, **empty | found)

    return page.attempt(lambda: show(**work()), show) if form.is_sent else show()


@operations("GET", "/spread/file", Role.OPERATOR)
def get_spread_file(
    page: CurrentPage, form: Filled, owner: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """The moved schedules of an owner as a file for diff and apply; computed again."""
    text = proposed_files(_propose(page, form.given)).get(owner)
    if text is None:
        raise Conflict("the proposal has changed, and moves none of these; go back and reload it")
    return Response(
        text,
        headers={"Content-Disposition": f'attachment; filename="{_file_name(owner)}"'},
        media_type="application/yaml",
    )


def _propose(page: CurrentPage, given: Mapping[str, str]) -> SpreadProposal:
    asked = _asked(page, given)
    names = given["names"].replace(",", " ").split()
    with page.ask.computing() as book:
        return _bounded(lambda: book.spread(names=names, label=given["label"] or None, **asked))


def _bounded(work: Callable[[], T]) -> T:
    """The result of `work`; an OverBudget is raised with advice that fits these pages."""
    try:
        return work()
    except OverBudget as error:
        raise OverBudget(f"{str(error).partition(';')[0]}; {TOO_MUCH}") from None


def _asked(page: CurrentPage, given: Mapping[str, str]) -> dict[str, Any]:
    """The options in the form. Raises Invalid for a field that cannot be read."""
    return {
        "days": _number("days", given["days"]),
        "workers": _number("workers", given["workers"]) if given["workers"] else None,
        "percentile": _number("percentile", given["percentile"]),
        "start": page.read_time("from", given["from"]) if given["from"] else None,
    }


def _number(field: str, text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    raise Invalid(f'{field} "{shorten(text)}" is not a whole number')


def _files(
    page: CurrentPage, proposal: SpreadProposal, given: Mapping[str, str]
) -> Sequence[ProposedFile]:
    """The files, each with a URL that computes it again from the same start."""
    asked = dict(given) | {"from": format_instant(proposal.before.start)}
    return [
        ProposedFile(
            owner, _file_name(owner), text, page.url("spread", "file", **asked, owner=owner)
        )
        for owner, text in proposed_files(proposal).items()
    ]


def _file_name(owner: str) -> str:
    return f"spread-{owner}.yaml" if owner else "spread.yaml"


def _command(page: CurrentPage, name: str, given: Mapping[str, str]) -> str:
    """The equivalent command."""
    words = ["duebook", name, "--days", given["days"]]
    if given["from"]:
        with suppress(Invalid):
            words += ["--from", format_instant(page.read_time("from", given["from"]))]
    words += ["--workers", given["workers"]] if given["workers"] else []
    words += ["--percentile", given["percentile"]] if given["percentile"] != PERCENTILE else []
    if name == "spread":
        changed = given["label"] not in (LABEL, "")
        words += ["--label", given["label"].replace(":", "=", 1)] if changed else []
        words += [w for one in given["names"].replace(",", " ").split() for w in ("--name", one)]
    return " ".join(map(quote, words))
