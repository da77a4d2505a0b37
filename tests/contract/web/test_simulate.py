"""The pages for simulations, and for better minutes of schedules that may move."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from duebook.api.computing import Computing
from tests.support.pages import INLINE, Browser

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.book import Book

TRUE = {"command": ["true"]}
FROM = {"days": "2", "from": "2026-02-07T12:00:00Z"}


def herd(book: Book, labels: dict[str, str] | None = None) -> None:
    for name in ("a", "b", "c"):
        book.schedules.create(name, trigger={"cron": "0 3 * * *"}, target=TRUE, labels=labels or {})


def test_a_simulation_is_shown_with_its_pictures_and_links(operator: Browser, book: Book) -> None:
    herd(book)
    assert "/simulate" in operator.ok("/calendar").links
    form = operator.ok("/simulate")
    assert (form.sends("/simulate"), "<svg" in form.source) == (True, False), "nothing yet"
    page = operator.ok("/simulate", **FROM, workers="1", percentile="95")
    assert "3 schedules, 6 due times" in page.text
    assert "1 runs at the same time, at most" in page.text
    assert "Busiest minutes" in page.text
    assert "Schedules that others wait for" in page.text
    assert {"/schedules/a", "/schedules/b", "/schedules/c"} <= set(page.links)
    assert "--from 2026-02-07T12:00:00Z --workers 1 --percentile 95" in page.text
    assert page.source.count("<svg") == 1
    assert not INLINE.search(page.source)
    assert page.form("/simulate")["fields"]["workers"] == "1"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"days": "many"}, 'Days "many" is not a whole number'),
        ({"days": "2000"}, "Days 2000 is not a whole number from 1 to 1,830"),
        ({"days": "1", "workers": "0"}, "Workers 0 is not a whole number from 1"),
        ({"days": "1", "percentile": ""}, 'Percentile "" is not a whole number'),
        ({"days": "1", "from": "soon"}, "From:"),
    ],
)
def test_what_cannot_be_simulated_is_told_beside_the_form(
    operator: Browser, given: dict[str, str], told: str
) -> None:
    for path in ("/simulate", "/spread"):
        page = operator.get(path, **given)
        assert page.status == 422
        assert told in page.text
        assert page.form(path)["fields"]["days"] == given["days"]


def test_what_takes_too_long_says_what_to_do(app: App, operator: Browser, book: Book) -> None:
    busy = [{"name": f"s{n}", "cron": f"{n} * * * *", "target": TRUE} for n in range(20)]
    book.schedules.create_many(busy)
    app.state.services = replace(app.state.services, computing=Computing(seconds=-1.0))
    for path in ("/simulate", "/spread"):
        page = operator.get(path, days="7")
        assert page.status == 422
        assert "of processor time; choose fewer days, or use the command below" in page.text


def test_a_proposal_is_shown_and_its_file_can_be_applied(operator: Browser, book: Book) -> None:
    herd(book, {"team": "data"})
    assert "No schedule may move" in operator.ok("/spread", **FROM).text
    page = operator.ok("/spread", **FROM, label="team:data")
    assert "2 schedules of 3 that may move" in page.text
    assert page.source.count("<svg") == 2
    assert "duebook spread --days 2 --from 2026-02-07T12:00:00Z --label team=data" in page.text
    assert "duebook apply spread.yaml --adopt" in page.text
    (link,) = [link for link in page.links if link.startswith("/spread/file?")]
    answer = operator.client.get(link)
    assert "spread.yaml" in answer.headers["content-disposition"]
    moved: list[Any] = yaml.safe_load(answer.text)["schedules"]
    declared = book.schedules.declare(moved, adopt=True)
    assert len(declared.changed) == 2
    assert (book.simulate(days=2).peak, book.spread(label="team:data").moves) == (1, ())
    assert operator.get(link).status == 409, "nothing moves any more"


def test_each_owner_has_a_file(operator: Browser, book: Book) -> None:
    movable = {"labels": {"may-move": "true"}, "trigger": {"cron": "0 3 * * *"}, "target": TRUE}
    for owner in ("billing", "shop"):
        book.schedules.declare([{"name": f"{owner}-{n}", **movable} for n in range(2)], owner)
    book.schedules.create("fixed", trigger={"cron": "1,7 3 * * *"}, target=TRUE)
    page = operator.ok("/spread", **FROM, names="fixed", label="may-move:true")
    assert "duebook apply spread-shop.yaml" in page.text
    assert "File for owner billing" in page.text
    assert "fixed : only an interval" in page.text
    assert len([link for link in page.links if link.startswith("/spread/file?")]) == 2
    assert operator.get("/spread", **FROM, names="nobody").status == 422


def test_viewers_see_no_link_to_what_they_may_not_do(viewer: Browser) -> None:
    assert "/simulate" not in viewer.ok("/calendar").links
