"""Requests to a real server on 127.0.0.1: what is sent, what is refused, and how each ends."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.definition import load_spec
from duebook.model.run import Claim, Outcome, Run, Token
from duebook.targets.addresses import read_networks
from duebook.targets.http import MOST_READ, perform_http
from duebook.targets.http_response import MOST_SHOWN
from duebook.targets.outcomes import MOST_OUTPUT
from duebook.targets.processes import Stop
from tests.integration.http_server import Server, authority
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AT = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
HERE = read_networks("127.0.0.0/8")
SECRET = "s3cret-t0ken"  # noqa: S105


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as opened:
        yield opened


def claim_of(http: dict[str, Any], attempt: int = 1, **definition: Any) -> Claim:
    form = {"trigger": {"every": "1h"}, "target": {"http": http}, **definition}
    run = Run(
        id="run-1",
        namespace="default",
        schedule_id="schedule-1",
        schedule="hook",
        version=1,
        due_at=AT,
        origin="schedule",
        trigger="schedule:every 1h",
        queue="default",
        priority=0,
        status="running",
        attempt=attempt,
        failures=0,
        losses=0,
        payload=None,
        created_at=AT,
        ready_at=AT,
    )
    return Claim(run, Token(run.id, attempt, "session"), load_spec(form, "hook"))


class Performed:
    """A request that was performed here, with what it printed."""

    def __init__(self, claim: Claim, stop: Stop | None = None, **options: Any) -> None:
        self.printed, self.notes = b"", list[str]()
        with stop or Stop() as signal:
            options.setdefault("allowed", HERE)
            self.outcome = perform_http(claim, signal, self._print, self.notes.append, **options)

    def _print(self, _: str, data: bytes) -> None:
        self.printed += data

    @property
    def said(self) -> str:
        told = [*self.notes, self.outcome.error or "", self.outcome.output or ""]
        return self.printed.decode() + "\n".join(told)

    @property
    def output(self) -> Any:
        return json.loads(str(self.outcome.output))


def perform(http: dict[str, Any] | str, **options: Any) -> Performed:
    return Performed(claim_of({"url": http} if isinstance(http, str) else http), **options)


# ------------------------------------------------------------ what is sent


def test_a_request_carries_its_run_and_its_body(server: Server) -> None:
    done = perform(
        {
            "url": server.url("/ok?a=1"),
            "method": "PUT",
            "headers": {"X-Team": "data", "Authorization": f"Bearer {SECRET}"},
            "json": {"ä": [1, None]},
        }
    )
    kept = '{"status": 200, "text": "fine\\n"}'
    assert done.outcome == Outcome("succeeded", exit_code=200, output=kept)
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.json) == ("PUT", "/ok?a=1", {"ä": [1, None]})
    wanted = {
        "Idempotency-Key": "run-1",
        "Duebook-Attempt": "1",
        "Duebook-Schedule": "hook",
        "Duebook-Due-At": "2026-03-29T00:30:00Z",
        "Content-Type": "application/json",
        "X-Team": "data",
        "Authorization": f"Bearer {SECRET}",
    }
    assert wanted.items() <= asked.headers.items()
    assert done.printed == b"fine\n"
    assert done.notes[0].startswith(f"{server.url('/ok?…')} returned 200 OK in ")


def test_a_request_carries_the_trace_of_its_attempt(server: Server) -> None:
    header = f"00-{'a' * 32}-{'b' * 16}-01"
    claim = claim_of({"url": server.url(), "headers": {"Traceparent": "its own"}})
    Performed(claim._replace(traceparent=header))
    assert server.asked[-1].headers["traceparent"] == header
    Performed(claim)
    assert server.asked[-1].headers["Traceparent"] == "its own", "a node that does not trace"


def test_the_key_is_the_same_for_every_attempt(server: Server) -> None:
    for attempt in (1, 2):
        Performed(claim_of({"url": server.url()}, attempt))
    keys = [(a.headers["Idempotency-Key"], a.headers["Duebook-Attempt"]) for a in server.asked]
    assert keys == [("run-1", "1"), ("run-1", "2")]


def test_text_is_sent_as_it_is(server: Server) -> None:
    perform({"url": server.url(), "body": "a\nb é", "headers": {"content-type": "text/csv"}})
    (asked,) = server.asked
    assert (asked.method, asked.body) == ("POST", "a\nb é")
    assert [v for k, v in asked.headers.items() if k.lower() == "content-type"] == ["text/csv"]


def test_the_environment_gives_no_proxy_and_no_password(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password it\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert perform(server.url()).outcome.status == "succeeded"
    assert "Authorization" not in server.asked[0].headers


# ------------------------------------------------------------ how answers are judged


@pytest.mark.parametrize(
    ("expect", "status", "succeeds"),
    [
        (None, 204, True),
        (None, 404, False),
        (None, 503, False),
        (404, 404, True),
        ([200, 202], 201, False),
        (["2xx", 409], 409, True),
        ("3xx", 304, True),
    ],
)
def test_the_status_decides(server: Server, expect: Any, status: int, succeeds: bool) -> None:
    done = perform({"url": server.url(f"/status/{status}"), "expect": expect})
    assert done.outcome.exit_code == status
    assert (done.outcome.status == "succeeded") == succeeds
    if not succeeds:
        assert done.outcome.reason == "http_status"
        assert str(done.outcome.error).startswith(f"returned {status} ")


def test_a_huge_answer_is_cut(server: Server) -> None:
    done = perform(server.url("/huge"))
    assert done.outcome.status == "succeeded"
    assert len(done.printed) == MOST_SHOWN + 1
    assert done.notes[-1] == f"… the first 10,000 characters of {MOST_READ:,} bytes and more"


@pytest.mark.parametrize("path", ["/binary", "/gzip"])
def test_what_is_no_plain_text_is_not_shown(server: Server, path: str) -> None:
    done = perform(server.url(path))
    assert (done.outcome.status, done.printed) == ("succeeded", b"")
    assert "is not shown" in done.notes[-1]
    assert done.output == {"status": 200}


JSON = "application/problem+json; charset=utf-8"


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        (JSON, '{"ü": [1, null]}', {"json": {"ü": [1, None]}}),
        ("Application/JSON", "null", {"json": None}),
        (JSON, "{oops", {"text": "{oops"}),
        (JSON, "[NaN]", {"text": "[NaN]"}),
        (JSON, r'["\ud800"]', {"text": r'["\ud800"]'}),
        (JSON, "[" * 60_000, {"text": "[" * 60_000}),
        ("text/plain", "[1]", {"text": "[1]"}),
        ("text/plain", "", {}),
    ],
)
def test_the_output_is_the_status_and_the_body(
    server: Server, kind: str, body: str, kept: dict[str, Any]
) -> None:
    done = perform({"url": server.url(f"/typed/{kind}"), "body": body})
    assert done.output == {"status": 200, **kept}


@pytest.mark.parametrize("sent", [r"s3\"cr/et=", r"s3\u0022cr\/et\u003d"])
def test_a_secret_is_hidden_however_json_writes_it(server: Server, sent: str) -> None:
    done = perform(
        {
            "url": server.url("/typed/application/json"),
            "headers": {"X-Key": 's3"cr/et='},
            "body": f'{{"{sent}": ["{sent}", 1]}}',
        }
    )
    assert done.output == {"status": 200, "json": {"***": ["***", 1]}}
    assert done.printed == b'{"***": ["***", 1]}\n'


def test_western_text_is_read_as_its_sender_says(server: Server) -> None:
    done = perform(server.url("/western"))
    assert done.output == {"status": 200, "text": "café"}


def test_a_path_is_shown_as_it_was_sent(server: Server) -> None:
    done = perform(server.url("/ok/a%20b%2Fc?d=e"))
    assert done.notes[0].startswith(server.url("/ok/a%20b%2Fc?… returned 200"))


@pytest.mark.parametrize("body", ["x" * 70_000, "é" * 40_000, "a" * 60_000 + "\x01" * 10_000])
@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
def test_a_body_too_large_for_an_output_is_cut(server: Server, kind: str, body: str) -> None:
    sent = json.dumps(body, ensure_ascii=False) if kind == "application/json" else body
    done = perform({"url": server.url(f"/typed/{kind}"), "body": sent})
    assert done.output.keys() == {"status", "text", "cut"}
    assert sent.startswith(done.output["text"])
    assert MOST_OUTPUT // 2 < len(str(done.outcome.output).encode()) <= MOST_OUTPUT


def test_the_output_of_a_failure_is_kept_too(server: Server) -> None:
    done = perform(server.url("/status/503"))
    assert (done.outcome.status, done.output) == (
        "failed",
        {"status": 503, "text": "this is 503\n"},
    )


@pytest.mark.parametrize(("path", "reason"), [("/garbage", "protocol"), ("/cut", "protocol")])
def test_a_broken_answer_fails(server: Server, path: str, reason: str) -> None:
    outcome = perform(server.url(path)).outcome
    assert (outcome.status, outcome.reason) == ("failed", reason)


def test_nobody_there_fails_and_says_where() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        outcome = perform(f"http://127.0.0.1:{port}/").outcome
    assert (outcome.status, outcome.reason) == ("failed", "connect")
    assert outcome.error == f"cannot connect to 127.0.0.1:{port}: 127.0.0.1: Connection refused"


def test_an_unknown_name_fails_and_may_be_tried_again() -> None:
    def unknown(*_: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    outcome = perform("http://nowhere.test/", resolver=unknown).outcome
    assert (outcome.reason, outcome.error) == (
        "connect",
        "cannot connect to nowhere.test:80: Name or service not known",
    )


# ------------------------------------------------------------ secrets


@pytest.mark.parametrize("path", ["/echo", f"/status/500?key={SECRET}", "/garbage"])
def test_a_secret_in_a_header_is_never_printed(server: Server, path: str) -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET, "Cookie": f"a={SECRET}"}
    done = perform({"url": server.url(path), "headers": headers})
    assert SECRET not in done.said
    assert SECRET in server.asked[0].headers["X-Api-Key"]


# ------------------------------------------------------------ where it may go


SPELLINGS = (
    "127.0.0.1 localhost 2130706433 0x7f.1 127.0.0.0x1 127.1 0.0.0.0 169.254.169.254 10.0.0.1 "
    "[::1] [::] [::ffff:127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] [fe80::1] [fd00:ec2::254]"
)


@pytest.mark.parametrize("host", SPELLINGS.split())
def test_no_spelling_of_a_private_address_is_connected_to(server: Server, host: str) -> None:
    done = perform(server.url("/ok", host), allowed=())
    assert (done.outcome.status, done.outcome.reason) == ("failed", "refused")
    assert "http_allow" in str(done.outcome.error)
    assert server.asked == []


def test_an_address_that_can_be_read_in_two_ways_is_refused(server: Server) -> None:
    assert perform(server.url("/ok", "0177.0.0.1")).outcome.reason == "refused"
    assert server.asked == []


def test_a_redirect_to_a_private_address_is_refused(server: Server) -> None:
    to = "http://169.254.169.254/latest/meta-data"
    done = perform(server.url(f"/redirect/302?to={to}"))
    assert done.outcome.reason == "refused"
    assert done.outcome.error == (
        "no request to 169.254.169.254: 169.254.169.254 is link-local; "
        "the setting http_allow can allow it"
    )


def test_a_name_that_means_another_address_the_second_time_is_refused(server: Server) -> None:
    """The address that was judged is the one that is connected to; nobody asks twice for it."""
    answers = [
        [(socket.AF_INET, ("127.0.0.1", server.port))],
        [(socket.AF_INET, ("127.0.0.2", server.port))],
    ]
    times = []

    def rebinding(host: str, port: int) -> Any:
        times.append((host, port))
        return answers[len(times) - 1]

    url = f"http://hook.test:{server.port}/redirect/307?to=http://hook.test:{server.port}/ok"
    done = perform(url, resolver=rebinding, allowed=read_networks("127.0.0.1"))
    assert len(times) == 2
    assert done.outcome.reason == "refused"
    assert "127.0.0.2 is loopback" in str(done.outcome.error)
    assert [asked.path.partition("?")[0] for asked in server.asked] == ["/redirect/307"]


def test_of_several_addresses_only_allowed_ones_are_tried(server: Server) -> None:
    def several(_: str, port: int) -> Any:
        hosts = ("10.0.0.1", "127.0.0.1", "169.254.169.254")
        return [(socket.AF_INET, (host, port)) for host in hosts]

    assert perform(server.url("/ok", "hook.test"), resolver=several).outcome.status == "succeeded"


# ------------------------------------------------------------ redirects


def test_redirects_are_followed_within_a_bound(server: Server) -> None:
    done = perform({"url": server.url("/redirect/302?to=/ok"), "json": {"a": 1}})
    assert done.outcome.status == "succeeded"
    assert [(a.method, a.path.partition("?")[0], a.body) for a in server.asked] == [
        ("POST", "/redirect/302", '{"a": 1}'),
        ("GET", "/ok", ""),
    ]
    assert "Content-Type" not in server.asked[1].headers
    endless = perform(server.url("/again")).outcome
    assert (endless.reason, endless.error) == ("redirect", "there are more than 5 redirects")


def test_307_sends_the_body_again(server: Server) -> None:
    perform({"url": server.url("/redirect/307?to=/ok"), "json": {"a": 1}})
    assert [(a.method, a.body) for a in server.asked] == [("POST", '{"a": 1}')] * 2
    assert server.asked[1].headers["Idempotency-Key"] == "run-1"


def test_a_redirect_whose_status_is_expected_is_the_answer(server: Server) -> None:
    done = perform({"url": server.url("/redirect/303?to=/ok"), "expect": 303})
    assert (done.outcome.status, len(server.asked)) == ("succeeded", 1)


def test_another_host_gets_no_secret(server: Server) -> None:
    with Server() as other:
        to = other.url("/ok")
        perform(
            {
                "url": server.url(f"/redirect/307?to={to}"),
                "headers": {"Authorization": SECRET, "X-Api-Key": SECRET, "Accept": "text/html"},
                "body": "",
            }
        )
        (asked,) = other.asked
    assert SECRET not in str(asked.headers)
    assert (asked.headers["Accept"], asked.headers["Idempotency-Key"]) == ("text/html", "run-1")
    assert asked.headers["Host"] == f"127.0.0.1:{other.port}"


@pytest.mark.parametrize("to", ["ftp://example.com/", "file:///etc/passwd", "http://a:b@c/", "//"])
def test_a_redirect_to_nothing_usable_fails(server: Server, to: str) -> None:
    assert perform(server.url(f"/redirect/302?to={to}")).outcome.reason == "redirect"


# ------------------------------------------------------------ TLS


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def to_here(_: str, port: int) -> Any:
    return [(socket.AF_INET, ("127.0.0.1", port))]


def test_a_certificate_nobody_trusts_is_refused() -> None:
    with Server(secure=True) as server:
        outcome = perform(server.url("/ok")).outcome
        assert server.asked == []
    assert (outcome.reason, outcome.status) == ("tls", "failed")
    assert "unable to get local issuer certificate" in str(outcome.error)


def test_a_certificate_is_for_its_host_only() -> None:
    with Server(secure=True) as server:
        good = perform(server.url("/ok", "hook.test"), tls=trusting(), resolver=to_here).outcome
        bad = perform(server.url("/ok", "other.test"), tls=trusting(), resolver=to_here).outcome
        assert len(server.asked) == 1
    assert good.status == "succeeded"
    assert (bad.reason, "Hostname mismatch" in str(bad.error)) == ("tls", True)


def test_a_host_that_ends_the_handshake_fails() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def hang_up() -> None:
            accepted, _ = listening.accept()
            accepted.recv(1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            accepted.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        outcome = perform(f"https://127.0.0.1:{listening.getsockname()[1]}/").outcome
        thread.join()
    assert (outcome.status, outcome.reason) in (("failed", "connect"), ("failed", "tls"))


def test_a_redirect_from_https_to_http_is_refused(server: Server) -> None:
    with Server(secure=True) as secure:
        url = secure.url(f"/redirect/302?to={server.url('/ok')}", "hook.test")
        outcome = perform(url, tls=trusting(), resolver=to_here).outcome
    assert (outcome.reason, outcome.error) == ("redirect", "302 redirects from https to http")
    assert server.asked == []


# ------------------------------------------------------------ time and stop


def stop_when(condition: Callable[[], bool], stop: Stop, reason: str) -> None:
    def wait() -> None:
        eventually(condition)
        stop.set(reason)

    threading.Thread(target=wait).start()


@pytest.mark.parametrize("path", ["/hold", "/flood"])
def test_the_timeout_ends_a_request_that_is_silent_or_never_is(server: Server, path: str) -> None:
    claim = claim_of({"url": server.url(path)}, timeout="1s")
    for seconds in (0.2, 2, 20):  # a busy machine may take a while to ask
        short = claim._replace(spec=replace(claim.spec, timeout=timedelta(seconds=seconds)))
        outcome = Performed(short).outcome
        assert (outcome.status, outcome.reason) == ("failed", "timeout")
        if server.asked:
            break
    assert server.gone.wait(PATIENCE)


def test_a_timeout_may_be_longer_than_a_poll_can_wait(server: Server) -> None:
    assert Performed(claim_of({"url": server.url()}, timeout="365d")).outcome.status == "succeeded"


@pytest.mark.parametrize("secure", [False, True])
def test_a_cancel_ends_a_request_at_once(secure: bool) -> None:
    with Server(secure=secure) as server, Stop() as stop:
        claim = claim_of({"url": server.url("/hold", "hook.test")}, timeout="1h")
        stop_when(lambda: bool(server.asked), stop, "cancelled")
        done = Performed(claim, stop, resolver=to_here, tls=trusting())
        assert done.outcome == Outcome("cancelled", "cancelled")


def test_a_cancel_leaves_a_resolver_that_does_not_answer() -> None:
    asked, released = threading.Event(), threading.Event()

    def silent(*_: Any) -> Any:
        asked.set()
        released.wait(2 * PATIENCE)
        return []

    with Stop() as stop:
        stop_when(asked.is_set, stop, "shutdown")
        outcome = Performed(claim_of({"url": "http://hook.test/"}), stop, resolver=silent).outcome
    released.set()
    assert outcome == Outcome("cancelled", "shutdown")


def test_a_cancel_leaves_a_host_that_does_not_accept() -> None:
    """Its queue of connections is full, so connecting goes on without an answer."""
    with socket.socket() as full, socket.socket() as first, Stop() as stop:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        others = [socket.socket() for _ in range(4)]
        for sock in (first, *others):
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        resolved = threading.Event()

        def found(host: str, port: int) -> Any:
            resolved.set()
            return to_here(host, port)

        stop_when(resolved.is_set, stop, "cancelled")
        url = f"http://hook.test:{full.getsockname()[1]}/"
        done = perform(url, stop=stop, resolver=found)
        for sock in others:
            sock.close()
    assert done.outcome == Outcome("cancelled", "cancelled")


def test_a_header_of_the_answer_says_where_the_result_is(server: Server) -> None:
    url = server.url("/ref?to=s3://reports/march.csv")
    assert perform(url).outcome.output_ref == "s3://reports/march.csv"
    assert perform(server.url("/ok")).outcome.output_ref is None
    long = perform(server.url("/ref/10001")).outcome
    assert (long.status, long.reason) == ("failed", "output")
    secret = {"url": server.url(f"/ref?to={SECRET}"), "headers": {"Authorization": SECRET}}
    assert SECRET not in str(perform(secret).outcome)
