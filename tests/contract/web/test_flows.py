"""Flows: their graph with the latest run, their text, and actions on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from duebook.engine.advancer import Advancer
from duebook.flows.each import each_target
from duebook.model.flow_target import FlowTarget
from duebook.store.flow_values import BrokenFile
from duebook.web.flow_graph import DrawnStep, draw_flow
from tests.support.builders import begin, claim
from tests.support.flow_builders import (
    CHAIN,
    FORK,
    GUARDED,
    PARTLY,
    UNMET,
    leave_out,
    put_flow,
    work,
)

if TYPE_CHECKING:
    import pytest

    from duebook.book import Book
    from tests.support.pages import Browser


def states(source: str) -> dict[str, str]:
    """The steps that a page has drawn, with their states."""
    found = re.findall(r'class="step step-(\w+)[^>]*><title>(.*?):', source)
    return {name: state for state, name in found}


def test_a_flow_is_drawn_with_the_states_of_its_latest_run(
    viewer: Browser, operator: Browser, book: Book
) -> None:
    put_flow(book.store, FORK, "fork")
    assert "no runs yet" in viewer.ok("/flows").text
    assert "/flows/fork" in viewer.ok("/flows", text="OR").links
    assert "No flow has “x”" in viewer.ok("/flows", text="x").text
    page = viewer.ok("/flows/fork")
    assert set(states(page.source).values()) == {"pending"}
    assert "handler_on: {exit:" in page.text
    assert not any("/start" in link or "/retry" in link for link in page.links)
    begin(book.store)
    asked = operator.ok("/flows/fork/start")
    wrong = operator.send(asked, "/flows/fork/start", **{"param-SIZE": "x" * 5, "param-NO": "1"})
    assert (wrong.status, 'has no param "NO"' in wrong.text) == (422, True)
    started = operator.send(asked, "/flows/fork/start", **{"param-DAY": "friday"})
    assert "Started." in started.text
    assert set(states(started.source).values()) == {"pending"}
    work(book.store, bad="failed")
    page = operator.ok("/flows/fork")
    drawn = states(page.source)
    assert (drawn["good"], drawn["bad"], drawn["join"]) == ("succeeded", "failed", "skipped")
    assert "failed" in viewer.ok("/flows").text
    run = book.flows.runs("fork")[0]
    (steps,) = [run_.id for run_ in book.flows.steps(run.id) if run_.step == "bad"]
    assert f"/runs/{steps}" in page.links


def test_a_run_goes_on_from_where_it_failed_or_from_a_step(operator: Browser, book: Book) -> None:
    put_flow(book.store, FORK, "fork")
    begin(book.store)
    run = book.flows.start("fork")
    work(book.store, bad="failed")
    page = operator.ok(f"/runs/{run.id}")
    assert states(page.source)["bad"] == "failed"
    from_here = [link for link in page.links if "/retry?step=" in link]
    assert {link.rpartition("=")[2] for link in from_here} == {"good", "bad", "join"}
    asked = operator.ok(f"/runs/{run.id}/retry?step=bad")
    assert "Continues from step “bad”" in asked.text
    again = operator.send(asked, f"/runs/{run.id}/retry")
    assert "Queued again" in again.text
    for path in ("/", "/runs"):  # the step was restarted
        assert "at step bad" not in operator.ok(path).text
    assert set(work(book.store, bad="failed")) >= {"bad"}
    for path in ("/", "/runs"):
        assert "at step bad" in operator.ok(path).text
    operator.send(operator.ok(f"/runs/{run.id}/retry"), f"/runs/{run.id}/retry")
    assert set(work(book.store)) >= {"bad", "join"}
    done = operator.ok(f"/runs/{run.id}")
    assert states(done.source)["bad"] == "succeeded"
    assert "Earlier step runs" in done.text
    assert "failed bad" in done.text
    wrong = operator.send(operator.ok(f"/runs/{run.id}/retry?step=no"), f"/runs/{run.id}/retry")
    assert wrong.status in (409, 404, 422)


def test_a_flow_is_stopped_and_begun_anew(operator: Browser, viewer: Browser, book: Book) -> None:
    put_flow(book.store, FORK, "fork")
    assert operator.send(operator.ok("/flows/fork/stop"), "/flows/fork/stop").status == 409
    book.flows.start("fork")
    assert "/flows/fork/stop" in operator.ok("/flows/fork").links
    stopped = operator.send(operator.ok("/flows/fork/stop"), "/flows/fork/stop")
    assert "being stopped" in stopped.text
    anew = operator.send(operator.ok("/flows/fork/restart"), "/flows/fork/restart")
    assert "will start again" in anew.text
    assert viewer.get("/flows/fork/stop").status == 403
    assert operator.get("/flows/fork/sing").status == 404
    assert viewer.get("/flows/ghost").status == 404


def test_problems_are_marked_at_their_line(operator: Browser, viewer: Browser, book: Book) -> None:
    page = operator.ok("/check-flow")
    text = "name: etl\r\nsteps:\r\n  - {name: one, comand: <b>}\r\n"
    found = operator.send(page, "/check-flow", source=text)
    assert re.search(
        r'<li id="L3" class="wrong">.*?did you mean `command`', found.source, re.DOTALL
    )
    assert "<b>" not in found.source
    right = operator.send(page, "/check-flow", source="steps:\n  - {name: a, command: 'true'}\n")
    assert "No problems found." in right.text
    put_flow(book.store, FORK, "fork")
    told = {"line": 3, "column": 1, "key": "params", "message": "params is <odd>", "hint": ""}
    places = ("flows/fork.yaml", "flows/other.yaml")
    text = "name: fork\nenv: {API_TOKEN: abc}\nparams: <odd>\n"
    problems = {place: BrokenFile([told | {"file": place}], "d", text) for place in places}
    book.store.transact(lambda tx: tx.flows.save_problems("default", ["flows"], problems))
    page = viewer.ok("/flows/fork")
    assert "the last valid version stays in use" in page.text
    assert re.search(r'<li id="L3" class="wrong">.*?&lt;odd&gt;', page.source, re.DOTALL)
    now, good = page.source.split("<h2>Last valid version</h2>")
    assert "params: &lt;odd&gt;" in now
    assert "handler_on: {exit:" in good
    assert "abc" not in page.source
    assert "/flow-file?file=flows%2Fother.yaml" in viewer.ok("/flows").links
    never = viewer.ok("/flow-file", file="flows/other.yaml")
    assert re.search(r'<li id="L3" class="wrong">.*?&lt;odd&gt;', never.source, re.DOTALL)
    assert "abc" not in never.source
    assert viewer.get("/flow-file", file="flows/none.yaml").status == 404
    assert viewer.get("/flow-file", file="../../etc/passwd").status == 404
    overview = viewer.ok("/")
    assert "Some flow files have problems" in overview.text
    assert "All good" not in overview.text
    assert "/flow-file?file=flows%2Fother.yaml" in overview.links


def test_a_step_says_how_to_go_on_from_it(operator: Browser, viewer: Browser, book: Book) -> None:
    put_flow(book.store, FORK, "fork")
    begin(book.store)
    run = book.flows.start("fork", {"DAY": "<friday>"})
    page = viewer.ok(f"/runs/{run.id}")
    assert "Params" in page.text
    assert '"DAY": "<friday>"' in page.text
    assert "<friday>" not in page.source
    work(book.store, bad="failed")
    (bad,) = [step.id for step in book.flows.steps(run.id) if step.step == "bad"]
    step = operator.ok(f"/runs/{bad}")
    assert f"/runs/{run.id}/retry?step=bad" in step.links
    assert f"duebook flow retry {run.id} --step bad" in step.text
    assert f"duebook retry {bad}" not in step.text
    assert not any("retry" in link for link in viewer.ok(f"/runs/{bad}").links)
    book.flows.retry(run.id, "bad")
    before = operator.ok(f"/runs/{bad}")
    assert "<h1>bad</h1>" in before.source
    assert not any("retry" in link for link in before.links)


def test_many_flows_are_shown_page_by_page(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.routes.flows.PAGE", 2)
    for name in ("a", "b", "c"):
        put_flow(book.store, CHAIN.replace("chain", name), name)
    page = viewer.ok("/flows")
    (more,) = [link for link in page.links if "cursor=" in link]
    rest = viewer.ok(more)
    assert [link for link in rest.links if link.startswith("/flows/")] == ["/flows/c"]
    assert "/flows/c" in viewer.ok("/flows", text="c").links


def test_a_schedule_shows_when_its_flow_is_stopped_and_restarted(
    viewer: Browser, book: Book
) -> None:
    put_flow(book.store, CHAIN)
    times: dict[str, Any] = {"stop": {"cron": "0 22 * * *"}, "restart": {"cron": "0 4 * * *"}}
    book.schedules.create("chain", cron="0 9 * * *", target={"flow": "chain"}, **times)
    page = viewer.ok("/schedules/chain")
    assert "Stops the flow: At 22:00 every day" in page.text
    assert ("stops the flow" in page.text, "restarts the flow" in page.text) == (True, True)


def test_a_flow_whose_directory_no_node_reads_says_so(viewer: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    book.store.transact(lambda tx: tx.directories.release_directories("reader"))
    assert 'No node has read directory "flows"' in viewer.ok("/flows/chain").text


def test_no_flows_teach(viewer: Browser) -> None:
    assert "duebook up --flows" in viewer.ok("/flows").text


def test_hostile_names_are_drawn_as_text_and_a_large_flow_is_not_drawn() -> None:
    step = DrawnStep("<script>" + "x" * 50, (), "true", "", "pending")
    drawn = draw_flow([step], lambda run: run.id)
    assert "<script>" not in drawn
    many = [DrawnStep(str(number), (), "true", "", "pending") for number in range(201)]
    assert draw_flow(many, lambda run: run.id) == ""


def test_what_was_not_to_run_is_skipped_with_the_reason(viewer: Browser, book: Book) -> None:
    put_flow(book.store, PARTLY, "partly")
    put_flow(book.store, GUARDED, "guarded")
    begin(book.store)
    partly, guarded = book.flows.start("partly"), book.flows.start("guarded")
    leave_out(book.store)
    page = viewer.ok(f"/runs/{partly.id}")
    assert set(states(page.source).values()) == {"skipped"}
    assert UNMET in page.text
    assert "an earlier step was skipped" in page.text
    (work, _) = book.flows.steps(partly.id)
    for path in (f"/runs/{work.id}", f"/runs/{guarded.id}", "/flows", "/flows/guarded"):
        page = viewer.ok(path)
        assert "is-skipped" in page.source, path
        assert "is-cancelled" not in page.source, path
    assert f"I{UNMET[1:]}" in viewer.ok(f"/runs/{work.id}").text


def test_the_links_of_a_parallel_step_lead_to_pages(viewer: Browser, book: Book) -> None:
    put_flow(book.store, "name: outer\nsteps: [{call: load, parallel: [a, b]}]\n", "outer")
    put_flow(book.store, "name: load\nparams: [F]\nsteps: [ls]\n", "load")
    begin(book.store)
    run = book.flows.start("outer")
    Advancer(book.store).step()
    (claimed,) = claim(book.store)
    made = each_target(FlowTarget("load"), ["a", "b"], 10, lambda item: {"F": item})
    book.store.transact(lambda tx: tx.flow_runs.call_flow(claimed.token, made))
    Advancer(book.store).step()
    (item, _) = book.flows.steps(claimed.run.id)
    for run_id in (run.id, claimed.run.id, item.id):
        page = viewer.ok(f"/runs/{run_id}")
        assert "duebook flow show each." not in page.text
        for link in page.links:
            if link.startswith(("/flows/", "/runs/")):
                viewer.ok(link)
    for link in viewer.ok("/runs").links:
        if link.startswith("/flows/"):
            viewer.ok(link)
