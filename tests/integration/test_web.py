"""`duebook up` and `duebook web` as people start them: the API of a real process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from duebook.api.app import create_app
from duebook.api.authenticator import BookAuthenticator
from duebook.api.server import Server, bind
from duebook.book.tokens import Tokens
from duebook.store.sqlite import SqliteStore
from tests.support.builders import tick
from tests.support.node_checks import door
from tests.support.nodes import World, world
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["world"]  # the fixture

LOCAL = f"dbk_local_{'a' * 43}"


def test_a_schedule_is_made_watched_and_deleted_while_its_log_grows(world: World) -> None:
    node = world.start("up", "--port", "0")
    target = {"shell": 'echo one; while [ ! -e "$GO" ]; do sleep 0.1; done; echo two'}
    with door(node) as api:
        body = {"name": "job", "cron": "0 0 29 2 *", "target": target}
        assert api.post("/api/v1/schedules", json=body).status_code == 201
        run = api.post("/api/v1/schedules/job/trigger").json()
        place = f"/api/v1/runs/{run['id']}/log"
        seen = []
        with api.stream("GET", place, headers={"Accept": "text/event-stream"}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: ")))
                    world.go.touch()  # only now may it go on
        assert [event.get("text") for event in seen[:2]] == ["one", "two"]
        assert seen[-1]["status"] == "succeeded"
        assert api.delete("/api/v1/schedules/job").status_code == 204
    assert node.end() == 0


def test_a_node_that_is_stopping_says_that_it_is_not_ready(world: World) -> None:
    node = world.start("up", "--port", "0")
    target = {"shell": 'while [ ! -e "$GO" ]; do sleep 0.1; done'}
    with door(node) as api:
        body = {"name": "job", "cron": "0 0 29 2 *", "target": target}
        assert api.post("/api/v1/schedules", json=body).status_code == 201
        run = api.post("/api/v1/schedules/job/trigger").json()
        eventually(lambda: api.get(f"/api/v1/runs/{run['id']}").json()["status"] == "running")
        assert api.get("/readyz").status_code == 200
        node.send(signal.SIGTERM)
        eventually(lambda: api.get("/readyz").status_code == 503)
        assert [problem["code"] for problem in api.get("/readyz").json()["problems"]] == ["node"]
        world.go.touch()
    assert node.wait_end() == 0


class Reader:
    """A client that knows the OpenAPI document of a server, and nothing else."""

    def __init__(self, api: httpx2.Client) -> None:
        self._api = api
        document = api.get("/api/openapi.json").json()
        self._operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }

    def do(self, operation_id: str, body: Any = None, /, **parameters: str) -> Any:
        """Call an operation; its answer must be the one that the document promises."""
        method, path, operation = self._operations[operation_id]
        places = {known["name"]: known["in"] for known in operation.get("parameters", [])}
        query = {key: value for key, value in parameters.items() if places[key] == "query"}
        answer = self._api.request(method, path.format(**parameters), json=body, params=query)
        assert str(answer.status_code) == next(iter(operation["responses"])), answer.text
        return answer.json() if answer.content else None

    def follow(self, done: str, answer: Any, link: str, body: Any = None) -> Any:
        """Go on from an answer by one of the links that the document has for it."""
        operation = self._operations[done][2]
        found = next(iter(operation["responses"].values()))["links"][link]
        values = {
            name: answer[place.removeprefix("$response.body#/")]
            for name, place in found["parameters"].items()
        }
        return self.do(found["operationId"], body, **values)


def test_a_client_that_has_only_the_document_can_do_everything(world: World) -> None:
    node = world.start("up", "--port", "0", "--roles", "scheduler,worker,web")
    with door(node) as api:
        reader = Reader(api)
        target = {"shell": "echo one"}
        made = reader.do("create_schedule", {"name": "job", "cron": "@yearly", "target": target})

        def go(link: str, body: Any = None) -> Any:
            return reader.follow("create_schedule", made, link, body)

        assert go("get_schedule")["status"] == "active"
        assert go("pause_schedule", {"reason": "moving"})["status"] == "paused"
        assert go("resume_schedule")["status"] == "active"
        later = "2999-01-01T00:00:00Z"
        assert go("reschedule", {"at": later})["next_due_at"] > made["next_due_at"]
        run = go("trigger_schedule")

        def text() -> Any:
            log = reader.follow("trigger_schedule", run, "get_log")
            return log["next_cursor"] is None and log["items"]

        assert [line["text"] for line in eventually(text)] == ["one"]
        assert reader.follow("trigger_schedule", run, "get_run")["status"] == "succeeded"
        go("delete_schedule")
    node.end()


def test_a_node_ends_though_somebody_reads_a_stream(world: World) -> None:
    node = world.start("up", "--port", "0", "--roles", "web")
    with door(node) as api:
        body = {"name": "job", "cron": "0 0 29 2 *", "target": {"command": ["true"]}}
        api.post("/api/v1/schedules", json=body)
        run = api.post("/api/v1/schedules/job/trigger").json()
        place = f"/api/v1/runs/{run['id']}/log"
        with api.stream("GET", place, headers={"Accept": "text/event-stream"}) as stream:
            node.send(signal.SIGTERM)
            assert not [line for line in stream.iter_lines() if line.startswith("data")]
    assert node.wait_end() == 0


def test_web_alone_plans_and_performs_nothing(world: World) -> None:
    node = world.start("web", "--port", "0")
    with door(node) as api:
        body = {"name": "job", "cron": "* * * * * *", "target": {"command": ["true"]}}
        due = api.post("/api/v1/schedules", json=body).json()["next_due_at"]
        run = api.post("/api/v1/schedules/job/trigger").json()
        assert api.get(f"/api/v1/runs/{run['id']}").json()["status"] == "queued"
        assert api.get("/api/v1/schedules/job").json()["next_due_at"] == due
    assert node.end() == 0


def test_without_the_role_nothing_is_served(world: World) -> None:
    node = world.start("up", "--roles", "scheduler,worker").wait_ready()
    assert "open:" not in node.output
    assert not (world.folder / ".duebook").exists()
    node.end()


def test_the_local_token_stays_over_restarts_until_it_is_rotated(world: World) -> None:
    """What a node prints into a file has no secret; links are printed when somebody asks."""
    file = world.folder / ".duebook" / "token"
    node = world.start("web", "--port", "0").wait_ready()
    first = file.read_text()
    node.end()
    node = world.start("web", "--port", "0").wait_ready()
    assert file.read_text() == first
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"duebook token link --database {world.place}" in node.output
    link = world.cli("token", "link").stdout.strip()
    with door(node) as api, httpx2.Client(timeout=PATIENCE) as browser:
        assert browser.get(link).status_code == 303
        assert browser.get(f"{api.base_url}/api/v1/me").json()["name"] == "local"
        result = world.cli("token", "rotate")
        assert result.returncode == 0, result.stderr
        assert "dbk_" not in result.stdout + result.stderr
        assert file.read_text() != first
        assert api.get("/api/v1/me").status_code == 401
        assert browser.get(f"{api.base_url}/api/v1/me").status_code == 401
        headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
        assert api.get("/api/v1/me", headers=headers).status_code == 200
    assert re.search(r"login|code|dbk_", node.output.replace("/login", "")) is None
    node.end()
    result = world.cli("token", "link")
    assert result.returncode == 4
    assert "start a node: duebook up" in result.stderr


def test_on_a_terminal_a_link_is_printed_that_works_once(world: World) -> None:
    ours, theirs = os.openpty()
    node = subprocess.Popen(  # noqa: S603
        world.cli_argv("up", "--port", "0"), env=world.env, cwd=world.folder, stdout=theirs
    )
    os.close(theirs)
    try:
        printed = b""
        while b"ready" not in printed:
            printed += os.read(ours, 4096)
        found = re.search(rb"open: (http://\S+/login\?code=\S+)", printed)
        assert found is not None, printed
        assert b"works once, for a minute; for another: duebook" in printed
        assert (world.folder / ".duebook" / "token").read_bytes().strip() not in printed
        with httpx2.Client(timeout=PATIENCE) as browser:
            assert browser.get(found[1].decode()).status_code == 303
            browser.cookies.clear()
            assert browser.get(found[1].decode()).status_code == 401
    finally:
        node.terminate()
        node.wait()
        os.close(ours)


def test_a_node_refuses_a_directory_that_others_can_write(world: World) -> None:
    folder = world.folder / ".duebook"
    folder.mkdir()
    folder.chmod(0o775)
    for words in (("up", "--port", "0"), ("token", "link"), ("token", "rotate")):
        result = world.cli(*words)
        assert result.returncode == 2
        assert f"{folder} can be written by others (mode 775); chmod go-w" in result.stderr
    result = world.cli("--database", str(folder / "books.db"), "up", "--roles", "worker")
    assert "can be written by others (mode 775)" in result.stderr


def test_a_port_that_is_taken_is_an_error_if_somebody_asked_for_it(world: World) -> None:
    with bind("127.0.0.1", 0).socket as taken:
        port = str(taken.getsockname()[1])
        result = world.cli("up", "--port", port)
    assert result.returncode == 4
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use" in result.stderr


def test_the_default_port_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind("127.0.0.1", 0).socket as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("duebook.api.server.DEFAULT_PORT", port)
        place = bind("127.0.0.1", None)
        with place.socket:
            assert place.port > port
            assert place.moved


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - that is the attack
def test_binding_beyond_loopback_without_a_token_is_refused(world: World, host: str) -> None:
    if host == "::" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    result = world.cli("up", "--host", host, "--port", "0")
    assert result.returncode == 2
    assert "there are no tokens yet; create one: duebook token create" in result.stderr
    assert not (world.folder / ".duebook").exists()


def test_beyond_loopback_only_the_tokens_of_the_books_open(world: World) -> None:
    _, text = Tokens(world.book.store).create("ops", "viewer", "*")
    node = world.start("web", "--host", "0.0.0.0", "--port", "0").wait_ready()  # noqa: S104
    found = re.search(r"open: http://127\.0\.0\.1:([0-9]+)/login$", node.output, re.MULTILINE)
    assert found is not None, node.output
    assert re.search(
        rf"^from other machines: http://\S+:{found[1]}/login$", node.output, re.MULTILINE
    )
    base = f"http://127.0.0.1:{found[1]}"
    headers = {"Authorization": f"Bearer {text}"}
    with httpx2.Client(base_url=base, timeout=PATIENCE) as client:
        assert client.get("/api/v1/me", headers=headers).json()["name"] == "ops"
        assert client.get("/api/v1/me").status_code == 401
    node.end()


# ------------------------------------------------------------ neither waits for the other


class Stuck:
    """Books that answer nobody until they are let go."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()

    def read(self, work: Any, patient: bool = False) -> Any:
        self.asked.release()
        assert self.go.wait(2 * PATIENCE)
        return self._store.read(work, patient)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_requests_that_wait_hold_up_neither_the_scheduler_nor_the_health(
    file_store: SqliteStore, tmp_path: Path
) -> None:
    stuck = Stuck(SqliteStore(tmp_path / "books.db"))
    place = bind("127.0.0.1", 0)
    headers = {"Authorization": f"Bearer {LOCAL}"}
    answers: list[int] = []
    with Server(create_app(stuck, BookAuthenticator(stuck, lambda: LOCAL)), place) as server:
        server.start()

        def ask() -> None:
            address = f"{place.address}/api/v1/runs"
            answer = httpx2.get(address, headers=headers, timeout=3 * PATIENCE)
            answers.append(answer.status_code)

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert stuck.asked.acquire(timeout=PATIENCE)
        assert tick(file_store) == 0
        assert httpx2.get(f"{place.address}/healthz", timeout=PATIENCE).status_code == 200
        stuck.go.set()
        for thread in threads:
            thread.join()
    stuck.close()
    assert answers == [200] * 20


def test_a_tick_that_does_not_end_holds_up_no_reader(
    file_store: SqliteStore, tmp_path: Path
) -> None:
    planning, go = threading.Event(), threading.Event()

    def plan_for_ever(tx: Any) -> None:
        tx.plans.take(10)
        planning.set()
        assert go.wait(4 * PATIENCE)

    ticker = threading.Thread(target=lambda: file_store.transact(plan_for_ever))
    ticker.start()
    assert planning.wait(PATIENCE)
    other = SqliteStore(tmp_path / "books.db")
    place = bind("127.0.0.1", 0)
    headers = {"Authorization": f"Bearer {LOCAL}"}
    try:
        with Server(create_app(other, BookAuthenticator(other, lambda: LOCAL)), place) as server:
            server.start()
            for path in ("/api/v1/schedules", "/api/v1/runs", "/healthz"):
                answer = httpx2.get(place.address + path, headers=headers, timeout=PATIENCE)
                assert answer.status_code == 200
    finally:
        go.set()
        ticker.join()
        other.close()


def test_a_server_ends_at_once_when_nobody_asks(file_store: SqliteStore) -> None:
    server = Server(
        create_app(file_store, BookAuthenticator(file_store, lambda: LOCAL)), bind("127.0.0.1", 0)
    )
    server.start()
    server.close()
    eventually(lambda: not server.alive)
