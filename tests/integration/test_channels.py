"""Channels over their real protocols, on loopback: what arrives, what a failure means, and where
nothing may go."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Invalid, Unavailable
from duebook.model.channel import load_channel
from duebook.model.smtp_server import load_smtp_url
from duebook.sinks.channels import ChannelSetup, MessageRefused, open_channel
from duebook.sinks.channels import smtp as mail_channel
from duebook.sinks.channels.apprise_process import Judge
from duebook.sinks.webhook import sign
from duebook.targets.addresses import read_networks
from duebook.targets.command_setup import command_setup
from duebook.targets.spawner import Spawner
from tests.integration.http_server import Server, authority
from tests.support.mail import MailServer
from tests.support.messages import MESSAGE, message
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.sinks.channels import Sender

LOOPBACK = read_networks("127.0.0.0/8")
HERE = ChannelSetup(LOOPBACK)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
HOOKS = ("webhook", "slack", "teams", "discord", "pagerduty")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as opened:
        yield opened


def hook(kind: str, url: str, setup: ChannelSetup = HERE) -> Sender:
    form = {"kind": kind, "url": url}
    return open_channel(
        load_channel(form | ({"routing_key": "0123456789abcdef"} if kind == "pagerduty" else {})),
        setup,
    )


# ------------------------------------------------------------ hooks


@pytest.mark.parametrize("kind", HOOKS)
def test_each_hook_gets_its_own_shape(server: Server, kind: str) -> None:
    hook(kind, server.url("/ok")).send(MESSAGE)
    (asked,) = server.asked
    assert (asked.method, asked.headers["Content-Type"]) == ("POST", "application/json")
    places: dict[str, Callable[[Any], str]] = {
        "webhook": lambda form: form["title"],
        "slack": lambda form: form["attachments"][0]["title"],
        "teams": lambda form: form["attachments"][0]["content"]["fallbackText"],
        "discord": lambda form: form["embeds"][0]["title"],
        "pagerduty": lambda form: form["payload"]["summary"],
    }
    assert places[kind](asked.json) == "etl failed"


def test_a_webhook_is_signed_and_known_by_its_id(server: Server) -> None:
    form = {"kind": "webhook", "url": server.url("/ok"), "secret": SECRET}
    channel = open_channel(load_channel(form), HERE)
    channel.send(MESSAGE)
    channel.send(MESSAGE)
    first, second = server.asked
    assert first.json == MESSAGE.to_json()
    stamp = int(first.headers["webhook-timestamp"])
    wanted = sign(SECRET, MESSAGE.id, stamp, first.body.encode())
    assert first.headers["webhook-signature"] == wanted
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == MESSAGE.id


def test_a_test_opens_an_incident_and_resolves_it(server: Server) -> None:
    hook("pagerduty", server.url("/ok")).send(message(status="test"))
    assert [asked.json["event_action"] for asked in server.asked] == ["trigger", "resolve"]


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_that_is_busy_or_refuses_or_hangs(server: Server, kind: str) -> None:
    with pytest.raises(Unavailable, match="it returned 503: this is 503"):
        hook(kind, server.url("/status/503")).send(MESSAGE)
    with pytest.raises(MessageRefused, match="it returned 400"):
        hook(kind, server.url("/status/400")).send(MESSAGE)
    with pytest.raises(Unavailable, match="did not respond in time"):
        hook(kind, server.url("/hold"), ChannelSetup(LOOPBACK, timeout=0.2)).send(MESSAGE)
    with pytest.raises(MessageRefused, match="it returned 302"):
        hook(kind, server.url("/redirect/302?to=/ok")).send(MESSAGE)


def test_a_channel_that_hangs_is_interrupted(server: Server) -> None:
    channel = hook("slack", server.url("/hold"))
    told: list[str] = []

    def send() -> None:
        try:
            channel.send(MESSAGE)
        except Unavailable as error:
            told.append(str(error))

    thread = threading.Thread(target=send)
    thread.start()
    eventually(lambda: server.asked)
    channel.interrupt()
    thread.join(30)
    assert told == ["shutdown"]


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_hook_at_an_address_that_is_not_public_gets_nothing(
    server: Server, kind: str, host: str
) -> None:
    url = server.url("/ok", host)
    with pytest.raises(Unavailable, match="http_allow"):
        hook(kind, url, ChannelSetup()).send(MESSAGE)
    assert server.asked == []


def test_a_name_that_means_another_address_is_judged_by_that() -> None:
    def rebinding(_: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
        return [(socket.AF_INET, ("169.254.169.254", port))]

    setup = ChannelSetup(LOOPBACK, resolver=rebinding)
    for form in (
        {"kind": "slack", "url": "https://hooks.slack.com/services/x"},
        {"kind": "email", "to": "a@b.c", "from": "a@b.c", "host": "mail.example.com"},
    ):
        with pytest.raises(Unavailable, match="is link-local"):
            open_channel(load_channel(form), setup).send(MESSAGE)


# ------------------------------------------------------------ e-mail


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's, and a client's that trusts it."""
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority().issue_cert("127.0.0.1", "localhost").configure_cert(theirs)
    authority().configure_trust(ours)
    return theirs, ours


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    theirs, ours = contexts()
    monkeypatch.setattr(mail_channel, "verified", lambda: ours)
    return theirs


@pytest.fixture
def mail() -> Iterator[MailServer]:
    pytest.importorskip("aiosmtpd")
    with closing(MailServer()) as opened:
        yield opened


def mailing(port: int, setup: ChannelSetup = HERE, **options: Any) -> Sender:
    form = {"kind": "email", "to": ["ops@example.com"], "from": "duebook@example.com"}
    server = {"host": "127.0.0.1", "port": port, "tls": "none"}
    return open_channel(load_channel({**form, **server, **options}), setup)


def test_an_email_arrives_as_it_was_meant(mail: MailServer) -> None:
    mailing(mail.port, to=["ops@example.com", "dev@example.com"]).send(
        message(title="étl failed", text="exit code 1\n.\nworld ✓")
    )
    ((recipients, sent),) = mail.mails
    assert recipients == ["ops@example.com", "dev@example.com"]
    assert (sent["Subject"], sent["From"]) == ("étl failed", "Duebook <duebook@example.com>")
    assert sent["Auto-Submitted"] == "auto-generated"
    assert sent.get_content().replace("\r\n", "\n") == (
        "exit code 1\n.\nworld ✓\n\nhttps://duebook.example.com/runs/r-1\n"
    )


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_a_password_is_sent_over_tls(trusted: ssl.SSLContext, tls: str) -> None:
    pytest.importorskip("aiosmtpd")
    with closing(MailServer(**{tls: trusted}, login=("duebook", "hunter22"))) as mail:
        mailing(mail.port, tls=tls, user="duebook", password="hunter22").send(MESSAGE)  # noqa: S106
        assert len(mail.mails) == 1
        with pytest.raises(MessageRefused, match="535") as caught:
            mailing(mail.port, tls=tls, user="duebook", password="wrong-one").send(MESSAGE)  # noqa: S106
        assert "wrong-one" not in str(caught.value)


def test_a_server_without_starttls_gets_neither_password_nor_message(mail: MailServer) -> None:
    with pytest.raises(MessageRefused, match="does not offer STARTTLS"):
        mailing(mail.port, tls="starttls", user="duebook", password="hunter22").send(MESSAGE)  # noqa: S106
    assert (mail.tried, mail.mails) == ([], [])


def test_a_certificate_that_nobody_trusts_stops_an_email() -> None:
    pytest.importorskip("aiosmtpd")
    theirs, _ = contexts()
    with closing(MailServer(starttls=theirs)) as mail:
        with pytest.raises(Unavailable, match="no secure connection to"):
            mailing(mail.port, tls="starttls").send(MESSAGE)
        assert mail.mails == []


@pytest.mark.parametrize("command", ["RCPT", "DATA"])
def test_mail_servers_say_later_or_no(mail: MailServer, command: str) -> None:
    mail.says = {command: "451 try again"}
    with pytest.raises(Unavailable, match="returned 451: try again"):
        mailing(mail.port).send(MESSAGE)
    mail.says = {command: "550 no such user"}
    with pytest.raises(MessageRefused, match="returned 550: no such user"):
        mailing(mail.port).send(MESSAGE)
    assert mail.mails == []


def test_one_recipient_who_is_refused_keeps_no_other_from_the_message(mail: MailServer) -> None:
    mail.says = {"RCPT gone@example.com": "550 gone"}
    mailing(mail.port, to=["gone@example.com", "ops@example.com"]).send(MESSAGE)
    ((recipients, _),) = mail.mails
    assert recipients == ["ops@example.com"]


def test_a_mail_server_that_is_silent_or_away_means_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(Unavailable, match="did not respond in time"):
            mailing(port, ChannelSetup(LOOPBACK, timeout=0.2)).send(MESSAGE)
    with pytest.raises(Unavailable, match="refused"):
        mailing(port).send(MESSAGE)


def test_a_mail_server_at_an_address_that_is_not_public_is_not_connected_to(
    mail: MailServer,
) -> None:
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(Unavailable, match="http_allow"):
            mailing(mail.port, ChannelSetup(), host=host).send(MESSAGE)
    assert mail.connections == 0


def test_the_mail_server_of_the_node_may_be_anywhere(mail: MailServer) -> None:
    url = f"smtp://127.0.0.1:{mail.port}?tls=none&from=node@example.com"
    setup = ChannelSetup(smtp=load_smtp_url(url))
    open_channel(load_channel("mailto:ops@example.com"), setup).send(MESSAGE)
    ((recipients, sent),) = mail.mails
    assert (recipients, sent["From"]) == (["ops@example.com"], "Duebook <node@example.com>")


def test_an_email_without_a_server_or_a_sender_is_refused() -> None:
    with pytest.raises(Invalid, match="DUEBOOK_SMTP_URL"):
        open_channel(load_channel("mailto:ops@example.com"), ChannelSetup())
    setup = ChannelSetup(smtp=load_smtp_url("smtp://mail.example.com"))
    with pytest.raises(Invalid, match="has no sender; give from"):
        open_channel(load_channel("mailto:ops@example.com"), setup)


# ------------------------------------------------------------ commands


@pytest.fixture
def spawner() -> Iterator[Spawner]:
    with Spawner(command_setup()) as started:
        yield started


def commanding(spawner: Spawner, *argv: str, timeout: str = "30s") -> Sender:
    form = {"kind": "command", "command": list(argv), "timeout": timeout}
    return open_channel(load_channel(form), ChannelSetup(spawner=spawner))


def test_a_command_gets_the_message_as_data(spawner: Spawner, tmp_path: Path) -> None:
    program = (
        "import json, os, sys; "
        "found = {k: v for k, v in os.environ.items() if k.startswith('DUEBOOK_ALERT')}; "
        "json.dump([found, json.load(sys.stdin), sys.argv[2:]], open(sys.argv[1], 'w'))"
    )
    file = tmp_path / "got"
    hostile = message(text="$(touch /tmp/x); `id`\n'\"", title="x" * 200_000)
    commanding(spawner, sys.executable, "-c", program, str(file), "$DUEBOOK_ALERT_TEXT").send(
        hostile
    )
    variables, given, words = json.loads(file.read_text())
    assert given == hostile.to_json()
    assert variables["DUEBOOK_ALERT_TEXT"] == hostile.text
    assert variables["DUEBOOK_ALERT_KIND"] == "failure"
    assert words == ["$DUEBOOK_ALERT_TEXT"], "no shell has read it"


def test_how_a_command_ends_says_what_to_do(spawner: Spawner) -> None:
    commanding(spawner, "true").send(MESSAGE)
    with pytest.raises(Unavailable, match="exit code 75: busy"):
        commanding(spawner, "sh", "-c", "echo busy >&2; exit 75").send(MESSAGE)
    with pytest.raises(MessageRefused, match="exit code 1: no"):
        commanding(spawner, "sh", "-c", "echo yes; echo no; exit 1").send(MESSAGE)
    with pytest.raises(MessageRefused, match="cannot start /nonexistent"):
        commanding(spawner, "/nonexistent").send(MESSAGE)
    with pytest.raises(Invalid, match="this node starts no commands of this namespace"):
        open_channel(load_channel({"kind": "command", "command": ["true"]}), ChannelSetup())


def test_a_command_that_hangs_ends_with_all_that_it_started(
    spawner: Spawner, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    text = f"(setsid sleep 1000 & echo $! > {file}); sleep 1000"
    with pytest.raises(MessageRefused, match="took longer than 1 s"):
        commanding(spawner, "sh", "-c", text, timeout="1s").send(MESSAGE)
    pid = int(file.read_text())
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_a_command_without_a_message_still_finds_nothing_to_read(spawner: Spawner) -> None:
    """Its supervisor may have served one that had something."""
    from duebook.targets.processes import Stop, supervise

    commanding(spawner, "cat").send(MESSAGE)
    written = bytearray()
    process = spawner.spawn(["cat"], {"PATH": "/usr/bin:/bin"})
    with Stop() as stop:
        ended = supervise(process, lambda _, piece: written.extend(piece), stop, 30, 1)
    assert (ended.code, bytes(written)) == (0, b"")


# ------------------------------------------------------------ Apprise

APPRISE = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that it imports


def apprising(spawner: Spawner, url: str, allowed: tuple[Any, ...] = LOOPBACK) -> Sender:
    pytest.importorskip("apprise")
    return open_channel(load_channel(f"apprise:{url}"), ChannelSetup(allowed, helper=spawner))


@APPRISE
def test_apprise_carries_what_it_knows(server: Server, spawner: Spawner) -> None:
    url = f"json://127.0.0.1:{server.port}/ok"
    apprising(spawner, url).send(MESSAGE)
    (asked,) = server.asked
    assert (asked.json["title"], asked.json["type"]) == ("etl failed", "failure")
    with pytest.raises(MessageRefused, match="Apprise could not send it"):
        apprising(spawner, url.replace("/ok", "/status/400")).send(MESSAGE)


@APPRISE
def test_apprise_connects_to_no_address_that_is_not_allowed(
    server: Server, spawner: Spawner
) -> None:
    """A name is judged by the address that is connected to, wherever it came from."""
    channel = apprising(spawner, f"json://localhost:{server.port}/ok", ())
    with pytest.raises(Unavailable, match=r"is loopback; the setting http_allow can allow it"):
        channel.send(MESSAGE)
    assert server.asked == []
    with pytest.raises(Invalid, match="does not understand the url"):
        apprising(spawner, "nosuch://x")


def test_every_connection_of_apprise_is_judged_by_its_address() -> None:
    judge = Judge(LOOPBACK)
    with socket.socket() as inet, socket.socket(socket.AF_UNIX) as unix:
        judge("socket.connect", (inet, ("127.0.0.1", 80)))
        judge("socket.sendmsg", (inet, None))
        judge("socket.connect", (inet, ("93.184.215.14", 443)))
        judge("open", ("/etc/passwd", "r", 0))
        assert judge.refused == []
        for connection, address, why in (
            (inet, ("169.254.169.254", 80), "link-local"),
            (inet, ("::ffff:10.0.0.1", 80), "private"),
            (inet, ("example.com", 80), "is a name"),
            (unix, "/run/docker.sock", "the machine itself"),
        ):
            with pytest.raises(ConnectionRefusedError, match=why):
                judge("socket.connect", (connection, address))
    assert len(judge.refused) == 4


def test_apprise_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(Invalid, match=r"pip install 'apprise"):
        open_channel(load_channel("apprise:json://example.com/"), HERE)
