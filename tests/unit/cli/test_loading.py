"""Who serves nothing loads nothing of the web."""

from __future__ import annotations

import subprocess
import sys

WEB = ("fastapi", "starlette", "pydantic", "uvicorn", "jinja2", "prometheus_client")


def test_a_node_without_the_role_web_loads_no_web_framework() -> None:
    program = f"import sys, duebook.cli.node; print([m for m in {WEB!r} if m in sys.modules])"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
