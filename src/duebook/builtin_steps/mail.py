"""Sends a step's mail through the mail server of the flow or of the node."""

from __future__ import annotations

import mimetypes
import sys
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from pathlib import Path
from typing import Any, Final

from duebook.builtin_steps.given import perform
from duebook.errors import Invalid, counted
from duebook.model.smtp_server import SmtpServer, check_address
from duebook.sinks.channels.smtp import Envelope, hand_over

__all__ = ["mail_of", "send_mail", "server_of"]

TIMEOUT: Final = 30.0
IMPLICIT_TLS: Final = 465
_HTML: Final = "<!doctype html>"


def send_mail(payload: dict[str, Any]) -> None:
    """Raises Invalid if something is missing, and Unavailable if the server does not accept it."""
    server = server_of(payload)
    sender = payload.get("from") or (payload.get("smtp") or {}).get("from")
    if not sender:
        raise Invalid("the mail has no sender; add `from`")
    everybody = [
        check_address(key, one)
        for key in ("to", "cc", "bcc")
        for one in payload.get(key, ())
        if one.strip()
    ]
    if not everybody:
        raise Invalid("the mail has no recipients; add `to`")
    mail = mail_of(payload, check_address("from", sender))
    hand_over(server, Envelope(sender, everybody, mail.as_bytes(policy=SMTP_POLICY)), TIMEOUT)
    sys.stdout.write(f"sent to {counted(len(everybody), 'recipient')}\n")


def server_of(payload: dict[str, Any]) -> SmtpServer:
    form = payload.get("smtp")
    if not form:
        raise Invalid(
            "there is no mail server; add `smtp` to the flow, or set smtp_url (DUEBOOK_SMTP_URL) "
            "of the node"
        )
    port, user = int(form["port"]), form.get("username") or None
    guessed = "tls" if port == IMPLICIT_TLS else "none" if user is None else "starttls"
    password = None if user is None else form.get("password") or ""
    return SmtpServer(form["host"], port, form.get("tls", guessed), user, password)


def mail_of(payload: dict[str, Any], sender: str) -> EmailMessage:
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["Subject"] = payload.get("subject", "").replace("\n", " ")
    mail["From"] = sender
    mail["To"] = ", ".join(payload.get("to", ()))
    if payload.get("cc"):
        mail["Cc"] = ", ".join(payload["cc"])
    text = payload.get("message", "")
    is_html = text.lstrip().lower().startswith(_HTML)
    mail.set_content(text, subtype="html" if is_html else "plain")
    for name in payload.get("attachments", ()):
        path = Path(name)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        main, _, sub = kind.partition("/")
        mail.add_attachment(path.read_bytes(), maintype=main, subtype=sub, filename=path.name)
    return mail


if __name__ == "__main__":
    perform(send_mail)
