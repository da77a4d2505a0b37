"""Secrets by reference: every kind of run gets its own, and nothing that is left behind has one.

The bytes of the database are searched, too: unlike other secrets, these are never stored.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import psycopg
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from duebook import Context, Duebook, Output
from duebook.book import Book
from duebook.cli import main
from duebook.model.secret_values import as_reference
from duebook.web.site import create_site
from tests.integration.every_output import commands, paths, put_flow
from tests.integration.http_server import Server
from tests.support.api import BASE, FixedTokens
from tests.support.node_checks import wait_for_success
from tests.support.nodes import World, world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.model.run import Run

__all__ = ["world"]  # the fixture

MARK: Final = "s3cret"
ENV, FILE, COMMAND = f"{MARK}-from/env 1", f"{MARK}-from-file+2", f'{MARK}-"from"-command'
VALUES: Final = (ENV, FILE, COMMAND)
KEY: Final = "{{ secret.KEY }}"
SHOWN: Final = {"command", "login", "process", "later", "http", "none", "flow", "print", "ask"}
"""Schedules and steps whose pages are looked at: one of each kind."""
DAILY: Final = {"cron": "@daily"}
FLOW: Final = """
params:
- PARAM_KEY: "{{ secret.FILE }}"
env:
- FLOW_KEY: "{{ secret.ENV }}"
steps:
- name: print
  command: echo "$FLOW_KEY $PARAM_KEY $OWN" | tee -a "$EVIDENCE"; printenv OWN | base64
  env: [{OWN: "a {{ secret.COMMAND }}"}]
  output: SAID
- name: hand
  command: echo "got $SAID"
  depends: print
- name: ask
  task: ask
  payload: {key: "${FLOW_KEY}"}
  depends: hand
- name: post
  http:
    url: "HOOK/typed/application/json?q={{ secret.FILE }}"
    json: {key: "{{ secret.COMMAND }}"}
  output: ANSWER
  depends: ask
- name: missing
  command: "true"
  env: [{NONE: "{{ secret.NONE }}"}]
  depends: post
  continue_on: {failure: true}
- name: argument
  command: [echo, "${FLOW_KEY}"]
  depends: missing
  continue_on: {failure: true}
"""


def write(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{line}\n")


def in_process(ctx: Context, key: str, evidence: str) -> dict[str, Any]:
    write(evidence, f"{key} {ctx.secret('FILE')}")
    sys.stdout.write(f"in a process {key} {ctx.secret('FILE')}\n")
    ctx.log.info("asked for %s", ctx.secret("COMMAND"))
    ctx.publish("told", {"key": key, "n": 1})
    return {"key": key, "also": [ctx.secret("FILE")]}


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "books.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def app(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Duebook]:
    file = tmp_path / "key"
    file.write_text(f"{FILE}\n")
    file.chmod(0o600)
    monkeypatch.setenv("SHOP_KEY", ENV)
    monkeypatch.setenv("DUEBOOK_HTTP_ALLOW", "127.0.0.0/8")
    own = {
        "ENV": {"env": "SHOP_KEY"},
        "FILE": {"file": str(file)},
        "COMMAND": {"command": ["/bin/echo", COMMAND]},
    }
    monkeypatch.setenv("DUEBOOK_SECRETS", json.dumps({"default": own}))
    made = Duebook(database)
    made.task(isolation="process")(in_process)

    @made.task
    def login(ctx: Context, key: str, evidence: str) -> None:
        write(evidence, f"{key} {ctx.secret('ENV')}")
        ctx.log.info("I log in with %s and %s", key, ctx.secret("ENV"))
        ctx.progress(0.5, f"with {key}")
        sys.stdout.write(f"printed {key}\n")
        raise ValueError(f"the server does not know {key}, nor {base64.b64encode(key.encode())!r}")

    @made.task
    async def later(ctx: Context, key: str = "") -> Output:
        ctx.publish("told", {"key": ctx.secret("ENV")}, key=f"{key}-{ctx.secret('ENV')}"[:200])
        return Output({"key": key, "own": ctx.secret("ENV")}, ref=f"s3://bucket/{quote(ENV)}")

    @made.task
    def ask(key: str) -> dict[str, Any]:
        return {"said": f"I was given {key}", "url": f"https://x.example/?k={quote(key, safe='')}"}

    @made.task
    def typed(number: int) -> None: ...

    @made.task
    def large(key: str) -> int:
        raise ValueError("x" * 1_990 + key)

    yield made
    made.store.close()


def targets(server: Server, evidence: str) -> dict[str, dict[str, Any]]:
    """A definition for each kind of input."""
    env, file, command = map(as_reference, ("ENV", "FILE", "COMMAND"))
    both = {"key": command, "evidence": evidence}
    shell = 'echo "$A $DUEBOOK_PAYLOAD_KEY" | tee -a "$DUEBOOK_PAYLOAD_EVIDENCE"; exit 3'
    http = {
        "url": server.url("/echo/{{ secret.FILE }}?key={{ secret.FILE }}"),
        "headers": {"Authorization": f"Bearer {file}"},
        "json": {"key": command},
    }
    elsewhere = server.url(f"/redirect/307?to={server.url('/ok', 'localhost')}")
    return {
        "command": {"target": {"shell": shell, "env": {"A": f"x{env}"}}, "payload": both},
        "argv": {"target": {"command": ["printenv", "A"], "env": {"A": env}}},
        "leak": {"target": {"command": ["echo", "{{ payload.key }}"]}, "payload": {"key": env}},
        "login": {"target": "login", "payload": both},
        "process": {"target": "in_process", "payload": both},
        "later": {"target": "later", "payload": {"key": command}},
        "asked": {"target": "ask", "payload": {"key": env}},
        "large": {"target": "large", "payload": {"key": env}},
        "unfit": {"target": "typed", "payload": {"number": env}},
        "http": {"target": {"http": http}},
        "body": {"target": {"http": {"url": server.url("/typed/text/plain"), "body": f"k={file}"}}},
        "moved": {"target": {"http": {"url": elsewhere, "json": {"key": file}}}},
        "none": {"target": {"shell": "true", "env": {"A": "{{ secret.NONE }}"}}},
        "flow": {"target": {"flow": "etl"}},
    }


def perform(app: Duebook, server: Server, evidence: str) -> list[Run]:
    with app.running(slots=4, keep_prints=True):
        for name, definition in targets(server, evidence).items():
            app.schedules.create(name, trigger=DAILY, **definition)
            app.schedules.update(name, priority=1)
            app.schedules.trigger(name)
        app.schedules.trigger("asked", payload={"key": "{{ secret.ENV }}"})
        app.enqueue("later", {"key": "plain"})

        def ended() -> list[Run]:
            runs = list(app.runs.list(limit=100))
            return runs if all(not run.is_active for run in runs) else []

        return eventually(ended)


def stored(database: str) -> bytes:
    """All that is in the database."""
    if not database.startswith("postgres"):
        files = Path(database).parent.glob(f"{Path(database).name}*")
        return b"".join(file.read_bytes() for file in files)
    with psycopg.connect(database) as connection:
        listed = "SELECT table_schema, table_name FROM information_schema.tables WHERE "
        listed += "table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', "
        listed += "'information_schema')"
        tables = connection.execute(listed).fetchall()
        assert len(tables) > 20
        rows = [
            connection.execute(f'SELECT t::text FROM "{schema}"."{table}" AS t').fetchall()  # noqa: S608
            for schema, table in tables
        ]
    return repr(rows).encode()


def in_pages(app: Duebook, runs: list[Run]) -> Iterator[str]:
    """What pages and the API show of secrets."""
    client = TestClient(create_site(app.store, FixedTokens()), BASE)
    client.cookies.set("duebook_session", "admin")
    events = [event.id for event in app.events.list(limit=100)]
    looked = 0
    for path in paths(runs, events[-3:]):
        kind = "application/json" if path.startswith("/api") else "text/html"
        answer = client.get(path, headers={"Authorization": "Bearer admin", "Accept": kind})
        looked += answer.status_code == 200
        yield from (f"{path}: {line}" for line in answer.text.splitlines() if MARK in line)
    assert looked > 100


def in_commands(database: str, runs: list[Run], flow: Path) -> Iterator[str]:
    """What the command line prints of them."""
    for words in (*commands(runs, flow), ["export"], ["doctor"]):
        told = CliRunner().invoke(main, ["--database", database, *words])
        yield from (f"{words}: {line}" for line in told.output.splitlines() if MARK in line)


def test_every_run_gets_its_secrets_and_nothing_has_them_afterwards(
    app: Duebook,
    database: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, logger="duebook")
    evidence = tmp_path / "evidence"
    with Server() as server:
        flow = FLOW.replace("HOOK", server.url()[:-1]).replace('"$EVIDENCE"', str(evidence))
        put_flow(app, tmp_path / "flows", flow)
        runs = perform(app, server, str(evidence))
        sent = str([asked.headers for asked in server.asked])
    got = evidence.read_text()
    assert f"x{ENV} {COMMAND}" in got, "a command has them in its environment"
    assert f"{COMMAND} {ENV}" in got, "a task has them in its payload and can ask for others"
    assert f"{COMMAND} {FILE}" in got, "a process of a task as well"
    assert f"{ENV} {FILE} a {COMMAND}" in got, "a step of a flow has those of its flow and its own"
    assert f"Bearer {FILE}" in sent, "a server gets what is its own"
    bodies = [json.loads(asked.body) for asked in server.asked if asked.body[:1] == "{"]
    assert {"key": COMMAND} in bodies
    assert not any(asked.path == "/ok" for asked in server.asked), "no secret goes to another host"

    by_name = {run.step or run.schedule: run for run in runs if run.schedule or run.step}
    assert by_name["none"].reason == by_name["missing"].reason == "secret"
    assert 'secret "NONE" is not available to namespace "default" on node' in str(
        by_name["none"].error
    )
    assert by_name["leak"].reason == by_name["argument"].reason == "template"
    assert by_name["moved"].reason == "redirect"
    assert by_name["hand"].status == "succeeded"
    assert by_name["later"].output == {"key": "***", "own": "***"}
    assert by_name["later"].output_ref == "s3://bucket/***"
    given = [run.output for run in runs if run.payload == {"key": "{{ secret.ENV }}"}]
    assert "{{ secret.ENV }}" in str(given), "what a person gives to a run is data"

    leaks = [f"node log: {line}" for line in caplog.text.splitlines() if MARK in line]
    shown = "".join(capsys.readouterr()).splitlines()
    leaks += [f"terminal: {line}" for line in shown if MARK in line]
    printed = [line.text for run in runs for _, line in app.runs.log(run.id)]
    assert any("got *** *** a ***" in text for text in printed)
    leaks += [f"log: {text}" for text in printed if MARK in text]
    if not database.startswith("postgres"):  # what is shown does not depend on the database
        some = [by_name[name] for name in sorted(SHOWN)]
        leaks += [*in_pages(app, some), *in_commands(database, some, tmp_path / "flows/etl.yaml")]
    content = stored(database)
    for value in VALUES:
        for form in (value, quote(value, safe=""), base64.b64encode(value.encode()).decode()[:-4]):
            leaks += [f"database: {form}"] * (form.encode() in content)
    leaks += ["database"] * (MARK.encode() in content)
    assert not leaks, "\n".join(sorted(set(leaks)))


def test_a_node_of_its_own_gives_secrets_only_to_the_namespace_that_its_table_names(
    world: World,
) -> None:
    (world.folder / "duebook.toml").write_text('[secrets.shop]\nKEY = {file = "key"}\n')
    (world.folder / "key").write_text(f"{FILE}\n")
    node = world.start("up", "--roles", "scheduler,worker").wait_ready()
    target = {"shell": 'test "$KEY" = "$(cat key)" && echo "it is $KEY"', "env": {"KEY": KEY}}
    shop, other = (Book(world.book.store, name) for name in ("shop", "default"))
    made = [book.schedules.create("x", trigger=DAILY, target=target) for book in (shop, other)]
    assert [[note.code for note in one.notes] for one in made] == [[], ["secret"]]
    wait_for_success(shop, own := shop.schedules.trigger("x").id)
    assert [line.text for _, line in shop.runs.log(own)] == ["it is ***"]
    refused = other.schedules.trigger("x").id
    eventually(lambda: not other.runs.get(refused).is_active)
    assert other.runs.get(refused).reason == "secret"
    assert 'to namespace "default"' in str(other.runs.get(refused).error)
    assert "every user of this machine can read the secret in key" in node.log
    node.end()
    assert FILE not in node.log + node.output
