"""A mail server on 127.0.0.1 for tests: aiosmtpd, which speaks SMTP with STARTTLS and AUTH."""

from __future__ import annotations

import asyncio
import email
import email.policy
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from email.message import EmailMessage


class MailServer:
    """Keeps what it accepts; the test that opens it closes it."""

    def __init__(
        self,
        starttls: ssl.SSLContext | None = None,
        tls: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        from aiosmtpd.smtp import SMTP

        self.mails: list[tuple[list[str], EmailMessage]] = []
        """each mail with its recipients"""
        self.connections = 0
        self.says: dict[str, str] = {}
        """responses by command (RCPT, DATA), in place of the usual ones"""
        self.tried: list[tuple[str, str]] = []
        """names and passwords that were tried"""
        self._login = login
        options: dict[str, Any] = {"tls_context": starttls, "hostname": "mail.test"}
        if login is not None:
            options |= {"authenticator": self._authenticate, "auth_require_tls": tls is None}
        if starttls is not None:
            options["require_starttls"] = True
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def begin() -> asyncio.Server:
            def accept() -> Any:
                self.connections += 1
                return SMTP(self, loop=self._loop, **options)

            return await self._loop.create_server(accept, "127.0.0.1", 0, ssl=tls)

        self._server = asyncio.run_coroutine_threadsafe(begin(), self._loop).result(30)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _authenticate(self, *arguments: Any) -> Any:
        from aiosmtpd.smtp import AuthResult

        data = arguments[4]
        self.tried.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=self.tried[-1] == self._login, handled=False)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        said = self.says.get(f"RCPT {address}") or self.says.get("RCPT")
        if said is None:
            envelope.rcpt_tos.append(address)
        return said or "250 OK"

    async def handle_DATA(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Any
    ) -> str:
        if "DATA" not in self.says:
            mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
            self.mails.append((list(envelope.rcpt_tos), mail))
        return self.says.get("DATA", "250 OK")

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            current = asyncio.current_task()
            left = [task for task in asyncio.all_tasks() if task is not current]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
