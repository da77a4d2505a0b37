"""Mail of a step goes through the server of the flow, or of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.builtin_steps import mail
from duebook.errors import Invalid
from tests.unit.flows.dagu_helpers import flow_of, rendered

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.smtp_server import SmtpServer
    from duebook.sinks.channels.smtp import Envelope

FLOW = """\
smtp: {host: mail.example.com, port: "587", username: ann, password: "${SMTP_PASS}"}
steps:
  - action: mail.send
    with: {from: a@x.de, to: [b@x.de, c@x.de], cc: d@x.de, subject: "${S}", message: hello}
"""


def test_a_mail_step_hands_its_message_to_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[tuple[SmtpServer, Envelope]] = []
    monkeypatch.setattr(
        mail, "hand_over", lambda server, envelope, _: sent.append((server, envelope))
    )
    payload: dict[str, Any] = rendered(flow_of("env: [SMTP_PASS: pw, S: done]\n" + FLOW)).payload
    report = tmp_path / "r.csv"
    report.write_text("1,2\n")
    mail.send_mail({**payload, "attachments": [str(report)]})
    ((server, envelope),) = sent
    assert (server.host, server.port, server.tls) == ("mail.example.com", 587, "starttls")
    assert (server.user, server.password) == ("ann", "pw")
    assert envelope.recipients == ["b@x.de", "c@x.de", "d@x.de"]
    text = envelope.mail.decode()
    assert "Subject: done" in text
    assert 'filename="r.csv"' in text
    assert capsys.readouterr().out == "sent to 3 recipients\n"


def test_a_message_that_is_a_page_is_sent_as_one() -> None:
    made = mail.mail_of({"to": ["a@x.de"], "message": "<!DOCTYPE html><p>x"}, "b@x.de")
    assert made.get_content_type() == "text/html"


def test_without_a_server_the_mail_says_what_to_set() -> None:
    with pytest.raises(Invalid, match="add `smtp` to the flow, or set smtp_url"):
        mail.send_mail({"to": ["a@x.de"], "from": "b@x.de"})
