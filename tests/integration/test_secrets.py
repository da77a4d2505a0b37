"""Marked secrets in every input there is, and every output there is searched for them."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from duebook import Context, Duebook
from duebook.cli import main
from duebook.errors import Invalid
from duebook.web.site import create_site
from tests.integration.every_output import commands, paths, put_flow
from tests.integration.http_server import Server
from tests.support.api import BASE, FixedTokens
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Run

MARK: Final = "s3cret"
"""Every secret begins so, and ends with the name of its input."""
READERS: Final = ("/readers", "/api/v1/events/consumers")
"""Where the errors of sinks and channels are shown."""
DAILY: Final = {"cron": "@daily"}
FLOW: Final = """
params:
- {name: DB_PASSWORD, type: string, default: "s3cret,#]typed-default"}
- {name: pwd, enum: [s3cret-choice, s3cret-other], default: s3cret-choice}
- MODE: quick
env:
- API_TOKEN: "s3cret-flow-env"
- DSN: "postgresql://ann:s3cret-dsn@db/books"
steps:
- name: print
  command: echo "$DB_PASSWORD $API_TOKEN $pwd $DSN"; env | grep -i -e pass -e token
  output: SAID
- name: hand
  command: test "$SAID" != "" && echo "got $SAID"
  depends: print
- name: login
  task: login
  payload: {access_token: "${API_TOKEN}"}
  depends: hand
  continue_on: {failure: true}
- name: judge
  command: "true"
  preconditions: [{condition: "$DSN", expected: never}]
  depends: login
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Duebook]:
    monkeypatch.setenv("DUEBOOK_HTTP_ALLOW", "127.0.0.0/8")
    made = Duebook(str(tmp_path / "books.db"))

    @made.task
    def login(ctx: Context, access_token: str) -> None:
        ctx.log.info("I log in with %s", access_token)
        ctx.progress(0.5, f"with {access_token}")
        raise ValueError(f"the server does not know {access_token}")

    @made.task
    async def login_later(access_token: str) -> None:
        raise ValueError(f"the server does not know {access_token}")

    @made.task
    def ask(pwd: str) -> dict[str, Any]:
        answer = f"https://example.com/?day=1&token={MARK}-answer"
        return {"refresh_token": f"{MARK}-output", "said": f"I was given {pwd}", "next": answer}

    yield made
    made.store.close()


def targets(server: Server) -> dict[str, dict[str, Any]]:
    """A definition for each kind of input."""
    http = {
        "url": server.url(f"/typed/application/json?api_key={MARK}-query"),
        "headers": {"X-Any": f"{MARK}-header"},
        "json": {"pwd": f"{MARK}-json", "user": "ann"},
    }
    form = {"url": server.url("/typed/text/plain"), "method": "POST", "body": f"pwd={MARK}-body"}
    command = "echo $ANY; echo $DUEBOOK_PAYLOAD_SECRET_KEY >&2; exit 3"
    return {
        "command": {
            "target": {"shell": command, "env": {"ANY": f"{MARK}-env"}},
            "payload": {"secret_key": f"{MARK}-payload", "note": f"x://ann:{MARK}-login@host/"},
        },
        "missing": {"target": {"command": [f"/{MARK[:3]}", "x"], "env": {"A": f"{MARK}-env"}}},
        "login": {"target": "login", "payload": {"access_token": f"{MARK}-task"}},
        "later": {"target": "login_later", "payload": {"access_token": f"{MARK}-async"}},
        "ask": {"target": "ask", "payload": {"pwd": f"{MARK}-asked"}},
        "http": {"target": {"http": http}},
        "form": {"target": {"http": form}},
        "tell": {"target": {"event": {"topic": "logins", "data": {"token": f"{MARK}-event"}}}},
        "flow": {"target": {"flow": "etl", "params": {"DB_PASSWORD": f"{MARK}-param"}}},
    }


def channels(server: Server) -> list[Any]:
    """For alerts: some take a message, others refuse it."""
    words = ["sh", "-c", "echo $0 >&2; exit 1", f"--token={MARK}-word"]
    whsec = "whsec_" + b64encode(f"{MARK}-signing-key".encode()).decode()
    return [
        f"slack+{server.url(f'/ok/{MARK}-hook')}",
        f"discord+{server.url(f'/status/400?sig={MARK}-sig')}",
        {"kind": "webhook", "url": server.url(f"/ok/{MARK}-url"), "secret": whsec},
        f"pagerduty+{server.url('/ok')}?routing_key={MARK}-routing",
        f"smtp://ann:{MARK}-mail@127.0.0.1:1?from=a@example.com&to=b@example.com",
        {"kind": "command", "command": words},
    ]


SENT: Final = tuple(f"{MARK}-{place}" for place in ("ping", "hook", "sig", "url", "routing"))
"""What services get of pings and alerts."""


def perform(app: Duebook, server: Server) -> list[Run]:
    """Each is made, changed and run; then the flow alone."""
    app.alerts.save("shared", on="failure", to=channels(server))
    with app.running(slots=4):
        for name, definition in targets(server).items():
            app.schedules.create(name, trigger=DAILY, **definition)
            app.schedules.update(name, priority=1)
            app.events.set_ping(name, server.url(f"/ok/{MARK}-ping"))
            app.schedules.trigger(name)
        app.flows.start("etl", {"DB_PASSWORD": f'{MARK}-"given'})
        app.enqueue("login", {"access_token": f"{MARK}-enqueued"})

        def ended() -> list[Run]:
            runs = list(app.runs.list(limit=100))
            return runs if all(not run.is_active for run in runs) else []

        runs = eventually(ended)
        eventually(lambda: all(word in str(list(server.asked)) for word in SENT))
        eventually(lambda: sum(lag.failing + lag.dead > 0 for lag in app.events.lags()) >= 3)
        return runs


def test_no_secret_is_in_any_output(
    app: Duebook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="duebook")
    put_flow(app, tmp_path / "flows", FLOW, f"{MARK}-broken")
    with Server() as server:
        runs = perform(app, server)
        app.templates.save("shared", **targets(server)["http"])
        sent = json.dumps([[asked.path, asked.headers, asked.body] for asked in server.asked])
    for place in ("query", "header", "json", "body"):
        assert f"{MARK}-{place}" in sent, "a server gets what is its own"
    said = str([app.runs.output(run.id) for run in runs if run.step == "print"])
    assert f'{MARK}-"given' in said, "later steps work with the output"

    leaks = [f"node log: {line}" for line in caplog.text.splitlines() if MARK in line]
    client = TestClient(create_site(app.store, FixedTokens()), BASE)
    client.cookies.set("duebook_session", "admin")
    events = [event.id for event in app.events.list(limit=100)]
    looked = 0
    names = [lag.consumer for lag in app.events.lags()]
    readers = [f"{place}/{name}" for place in READERS for name in names]
    for path in (*paths(runs, events[-3:]), *readers):
        kind = "application/json" if path.startswith("/api") else "text/html"
        answer = client.get(path, headers={"Authorization": "Bearer admin", "Accept": kind})
        looked += answer.status_code == 200
        leaks += [f"{path}: {line[:300]}" for line in answer.text.splitlines() if MARK in line]
    assert looked > 100
    printed = [line.text for run in runs for _, line in app.runs.log(run.id)]
    assert any("got ***" in text for text in printed)
    leaks += [f"log: {text}" for text in printed if MARK in text]
    for words in commands(runs, tmp_path / "flows" / "etl.yaml"):
        told = CliRunner().invoke(main, ["--database", str(tmp_path / "books.db"), *words])
        leaks += [f"{words}: {line}" for line in told.output.splitlines() if MARK in line]
    assert not leaks, "\n".join(sorted(set(leaks)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": {"shell": "x", "http": "y", "env": {"A": f"{MARK}-env"}}},
        {"target": {"http": {"url": f"ftp://example.com/?token={MARK}-query"}}},
        {"target": {"http": {"url": "https://example.com", "headers": [f"{MARK}-header"]}}},
        {"target": {"flow": "etl", "params": [{"pwd": f"{MARK}-param"}]}},
        {"target": "ask", "payload": [{"pwd": f"{MARK}-payload"}]},
    ],
)
def test_no_error_repeats_a_secret(app: Duebook, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        app.schedules.create("wrong", trigger=DAILY, **wrong)
    assert MARK not in str(caught.value)
