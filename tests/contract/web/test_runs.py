"""Runs and a run, with its log."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from duebook.engine.advancer import Advancer
from duebook.model.run import LogLine
from duebook.web.ansi import coloured, escaped, stripped
from duebook.web.rendering import distinct_ids
from tests.support.builders import SECOND, begin, claim, overlap, settle
from tests.support.flow_builders import CHAIN, ask_person, put_flow, steps_of

if TYPE_CHECKING:
    import pytest

    from duebook.book import Book
    from duebook.model.run import Claim
    from tests.support.pages import Browser


def begun(book: Book, *lines: str) -> Claim:
    """A running run that printed something."""
    book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    begin(book.store)
    book.schedules.trigger("job", {"words": "<b>"})
    (claimed,) = claim(book.store)
    now = claimed.run.created_at
    texts = [LogLine(now, "stdout", line) for line in lines]
    book.store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, texts))
    return claimed


TRUE = {"command": ["true"]}


def test_an_empty_list_teaches(viewer: Browser) -> None:
    assert "duebook run NAME" in viewer.ok("/runs").text


def test_runs_are_filtered(viewer: Browser, book: Book) -> None:
    claimed = begun(book)
    link = f"/runs/{claimed.run.id}"
    for query in ({}, {"status": "running"}, {"schedule": "job"}, {"origin": "manual"}):
        assert link in viewer.ok("/runs", **query).links, query
    for query in ({"status": "failed"}, {"queue": "mail"}):
        assert link not in viewer.ok("/runs", **query).links, query
    assert viewer.get("/runs", schedule="nobody").status == 404
    assert viewer.get("/runs", status="'; DROP").status == 400


def test_a_part_of_a_name_is_answered(viewer: Browser, book: Book) -> None:
    for name in ("orders", "orders-eu", "stock"):
        book.schedules.create(name, trigger={"cron": "@daily"}, target={"command": ["true"]})
        book.schedules.trigger(name)
    assert "/schedules/stock" in viewer.ok("/runs", schedule="sto").links, "there is no other"
    assert "/schedules/orders-eu" not in viewer.ok("/runs", schedule="orders").links
    several = viewer.get("/runs", schedule="order")
    assert several.status == 404
    assert {"/runs?schedule=orders", "/runs?schedule=orders-eu"} <= set(several.links)
    assert "Did you mean" not in viewer.get("/runs", schedule="<b>").text


def test_a_run_tells_that_an_earlier_attempt_went_on(viewer: Browser, book: Book) -> None:
    claimed = begun(book)
    overlap(book.store, claimed, SECOND)
    page = viewer.ok(f"/runs/{claimed.run.id}")
    assert "It continued until" in page.text
    assert "in parallel with attempt 2." in page.text


def test_a_flow_that_failed_is_one_failure(viewer: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    flow = book.flows.start("chain")
    advancer = Advancer(book.store)
    advancer.step()
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error="no such table")
    advancer.step()
    assert book.runs.get(flow.id).status == "failed"
    for path in ("/", "/runs?status=failed"):
        page = viewer.ok(path)
        rows = page.source.count('class="badge is-failed"')
        assert rows == 1, path
        assert f"at step {claimed.run.step}" in page.text
        assert "no such table" in page.text
        assert f"/runs/{claimed.run.id}" in page.links
    assert "1 run failed" in viewer.ok("/").text


def test_a_run_tells_everything_about_itself(viewer: Browser, book: Book) -> None:
    claimed = begun(book, "one", "\x1b[31mred\x1b[0m <script>x</script>", "three")
    settle(book.store, claimed.token, "failed", error="boom", exit_code=3)
    page = viewer.ok(f"/runs/{claimed.run.id}")
    for words in ("failed", "boom", "Exit code 3", "host-of-node-1", "one", "three", "<script>x"):
        assert words in page.text, words
    assert '<span class="ansi-red">red</span>' in page.source
    assert "<script>x" not in page.source
    assert f"duebook retry {claimed.run.id}" in page.text
    assert claimed.run.id in page.text
    found = viewer.ok(f"/runs/{claimed.run.id}", find="THREE")
    assert "three" in found.text
    assert ">one\n" not in found.source
    assert "None of 3 lines" in viewer.ok(f"/runs/{claimed.run.id}", find="four").text
    assert viewer.get(f"/runs/{claimed.run.id}", after="x").status == 400
    assert viewer.get("/runs/nothing").status == 404


def test_a_long_log_is_read_part_by_part(viewer: Browser, book: Book) -> None:
    run_id = begun(book, *(f"line {number} of it" for number in range(2_500))).run.id
    end = viewer.ok(f"/runs/{run_id}")
    assert "line 1499 of it" not in end.text
    assert "line 1500 of it" in end.text
    assert "line 2499 of it" in end.text, "what runs is shown at its end"
    page = viewer.ok(f"/runs/{run_id}", after="0.0")
    assert f"/runs/{run_id}?after=0.0#log" in end.links
    assert "line 999 of it" in page.text
    assert "line 1000 of it" not in page.text
    assert f"/runs/{run_id}?after=1.1000#log" in page.links
    assert f"/runs/{run_id}?last=1#log-end" in page.links
    assert viewer.ok(f"/runs/{run_id}", last="1").text.count("of it") == 1_000
    found = viewer.ok(f"/runs/{run_id}", find="line 1999 of")
    assert "line 1999 of it" in found.text
    assert "not kept" not in found.text


def test_a_page_has_no_more_of_a_log_than_fits(viewer: Browser, book: Book) -> None:
    run_id = begun(book, *(f"{number} {'x' * 3_000}" for number in range(200))).run.id
    page = viewer.ok(f"/runs/{run_id}")
    assert len(page.source) < 200_000
    assert "199 xxx" in page.text
    found = viewer.ok(f"/runs/{run_id}", find="xx")
    assert len(found.source) < 200_000


def test_script_reads_a_log_in_batches(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begun(book, *(f"line {number}" for number in range(5))).run.id
    monkeypatch.setattr("duebook.web.routes.run_logs.BATCH", 3)
    first = viewer.client.get(f"/runs/{run_id}/lines").json()
    assert [line[1] for line in first["lines"]] == [1, 2, 3]
    assert first["more"]
    rest = viewer.client.get(f"/runs/{run_id}/lines", params={"after": first["last"]}).json()
    assert [line[4] for line in rest["lines"]] == ["line 3", "line 4"]
    assert not rest["more"]
    assert viewer.client.get(f"/runs/{run_id}/lines", params={"after": "x"}).status_code == 400


def test_a_run_under_way_names_its_stream(viewer: Browser, book: Book) -> None:
    claimed = begun(book, "one")
    page = viewer.ok(f"/runs/{claimed.run.id}")
    assert f'data-stream="/api/v1/runs/{claimed.run.id}/log"' in page.source


def test_a_run_is_cancelled_and_run_again(operator: Browser, book: Book) -> None:
    claimed = begun(book)
    run = f"/runs/{claimed.run.id}"
    asked, other = operator.ok(f"{run}/cancel"), operator.ok(f"{run}/cancel")
    assert "Its node stops it" in asked.text
    assert "Its node is stopping it" in operator.send(asked, f"{run}/cancel").text
    settle(book.store, claimed.token, "cancelled", reason="cancelled")
    assert operator.send(other, f"{run}/cancel").status == 409
    done = operator.send(operator.ok(f"{run}/retry"), f"{run}/retry")
    assert "Queued again" in done.text
    undone = operator.send(done, f"{run}/cancel")
    assert "Cancelled." in undone.text
    assert "alert warn" not in undone.source


def test_a_page_that_asks_says_so_when_it_is_too_late(operator: Browser, book: Book) -> None:
    claimed = begun(book)
    run = f"/runs/{claimed.run.id}"
    assert "It has not finished yet" in operator.ok(f"{run}/retry").text
    settle(book.store, claimed.token)
    page = operator.ok(f"{run}/cancel")
    assert "It has already finished. Current state: succeeded." in page.text
    assert 'class="primary"' not in page.source


def test_what_was_done_to_a_run_is_told_as_it_came_out(operator: Browser, book: Book) -> None:
    claimed = begun(book)
    run = f"/runs/{claimed.run.id}"
    operator.send(operator.ok(f"{run}/cancel"), f"{run}/cancel")
    settle(book.store, claimed.token)
    assert "It finished before it could be cancelled" in operator.told(run, done="cancel").text
    operator.send(operator.ok(f"{run}/retry"), f"{run}/retry")
    assert "and has been queued again since" in operator.told(run, done="cancel").text
    (again,) = claim(book.store)
    settle(book.store, again.token)
    assert "It was queued again" in operator.told(run, done="retry").text


def test_a_run_that_had_started_is_not_started_anew_by_an_undo(
    operator: Browser, book: Book
) -> None:
    claimed = begun(book)
    run = f"/runs/{claimed.run.id}"
    operator.send(operator.ok(f"{run}/cancel"), f"{run}/cancel")
    settle(book.store, claimed.token, "cancelled")
    told = operator.told(run, done="cancel")
    assert "Cancelled." in told.text
    assert not told.sends(f"{run}/retry")


def test_a_step_in_a_command_is_one_word(operator: Browser, book: Book) -> None:
    run_id = begun(book).run.id
    page = operator.ok(f"/runs/{run_id}/retry", step="load; reboot")
    assert f"duebook flow retry {run_id} --step 'load; reboot'" in page.text


def test_terminal_escapes_become_colours_or_nothing() -> None:
    assert coloured("a\x1b[1;32mb\x1b[0mc") == 'a<span class="ansi-bold ansi-green">b</span>c'
    assert coloured("\x1b[38;5;1mx\x1b[2J\x1b]0;title\x07y") == "xy"
    assert coloured("\x1b[31m<b>\x1b[39m&") == '<span class="ansi-red">&lt;b&gt;</span>&amp;'
    assert stripped("a\x1b[31mb\x00\x07\u202ec\td") == "abc\td"
    unseen = "\xad\u061c\u2028\u2066\ufeff\U000e0041"
    assert stripped(f"a{unseen}b") == "ab"


def test_what_nobody_would_see_in_json_is_written_out() -> None:
    value = {"a\u202eb": "\ufeffé\U000e0041"}
    text = escaped(json.dumps(value, ensure_ascii=False))
    assert text == '{"a\\u202eb": "\\ufeffé\\udb40\\udc41"}'
    assert json.loads(text) == value


def test_a_large_output_is_a_download(viewer: Browser, book: Book) -> None:
    claimed, text = begun(book), "<b>" * 100_000
    settle(book.store, claimed.token, output=json.dumps(text))
    page = viewer.ok(f"/runs/{claimed.run.id}")
    assert "Download 300,002 bytes" in page.text
    answer = viewer.client.get(f"/runs/{claimed.run.id}/output")
    assert answer.text == text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment")


def test_a_person_approves_or_rejects_a_step_that_waits_for_one(
    operator: Browser, viewer: Browser, book: Book
) -> None:
    run_id = ask_person(book.store)
    step = f"/runs/{steps_of(book.store, run_id)['ok'].id}"
    assert f"{step}/answer" not in viewer.ok(step).links
    assert f"{step}/answer" in operator.ok(step).links
    page, other = operator.ok(f"{step}/answer"), operator.ok(f"{step}/answer")
    assert "Deploy?" in page.text
    assert "succeeded" in operator.send(page, f"{step}/answer", decision="approve").text
    late = operator.send(other, f"{step}/answer", decision="reject", comment="no")
    assert late.status == 409
    assert "does not wait for a person" in late.text
    assert book.flows.steps(run_id)[1].status == "succeeded"


def test_runs_of_a_millisecond_are_told_apart_and_found_by_what_is_shown(
    viewer: Browser, book: Book
) -> None:
    book.schedules.create("job", trigger={"cron": "@yearly"}, target={"command": ["true"]})
    alike = [book.schedules.trigger("job") for _ in range(3)]
    page = viewer.ok("/runs")
    shown = re.findall(r'"early">([^<]+)</span>([^<]+)</a>', page.source)
    found = {book.runs.get(early + end).id for early, end in shown}
    assert found == {run.id for run in alike}
    assert all(len(early + end) >= 18 for early, end in shown), "with some of what is random"
    ids = [f"01a1ef3b-a031-7c4e-{end}" for end in ("8001-000000000001", "8001-000000000002", "9")]
    told = distinct_ids(ids)
    assert [told[id_] for id_ in ids] == [ids[0], ids[1], "01a1ef3b-a031-7c4e-9"]


def test_runs_are_found_by_label_and_node(
    operator: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(book.store)
    ids = {}
    for name, team in (("mailing", "mail"), ("etl", "data")):
        book.schedules.create(name, trigger={"every": "10m"}, labels={"team": team}, target=TRUE)
        ids[name] = book.schedules.trigger(name).id
    for claimed in claim(book.store):
        settle(book.store, claimed.token)
    page = operator.ok("/runs", label="team:mail")
    assert f"/runs/{ids['mailing']}" in page.links
    assert f"/runs/{ids['etl']}" not in page.links
    assert f"/runs/{ids['etl']}" in operator.ok("/runs", node="host-of-node-1").links
    assert "No matching runs" in operator.ok("/runs", node="elsewhere").text
    assert operator.get("/runs", label="team").status == 422
    monkeypatch.setattr("duebook.web.run_search.LOOKS", (1,))
    short = operator.ok("/runs", label="team:mail")
    assert "Search older runs" in short.text
    assert (
        f"/runs/{ids['mailing']}"
        in operator.ok(next(a for a in short.links if "cursor=" in a)).links
    )
