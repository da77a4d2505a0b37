"""Looks for known vulnerabilities in the packages of the test environment: `make audit`.

pip-audit is installed into a separate environment. If it cannot be installed, or reaches no source
of advisories, that is reported, but does not fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from tools.lock import LOCK, ROOT

if TYPE_CHECKING:
    from pathlib import Path

HOME: Final = ROOT / ".venv" / "audit"
TOOL: Final = "pip-audit==2.9.0"
LAST: Final = 3
"""How many lines of a tool's output are shown."""


def findings(report: dict[str, Any]) -> list[str]:
    """One line for each advisory."""
    return [
        f"{package['name']} {package['version']}: {found['id']}"
        + (f", mended in {', '.join(found['fix_versions'])}" if found["fix_versions"] else "")
        for package in report["dependencies"]
        for found in package.get("vulns", [])
    ]


def judge(said: str, complaint: str) -> tuple[int, str]:
    """The exit code and the message, from pip-audit's output."""
    try:
        report = json.loads(said)
    except ValueError:
        why = "\n".join(complaint.strip().splitlines()[-LAST:])
        return 0, f"not checked: pip-audit reached no source of advisories\n{why}".rstrip()
    if told := findings(report):
        return 1, "\n".join([*told, "update the pins in constraints.txt, then: make lock"])
    return 0, f"no known vulnerability in {len(report['dependencies'])} packages"


def installed() -> Path | None:
    """The command, installed if necessary; None if that is not possible here."""
    command = HOME / "bin" / "pip-audit"
    if command.exists():
        return command
    for step in (
        [sys.executable, "-m", "venv", str(HOME)],
        [str(HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", TOOL],
    ):
        if subprocess.run(step, capture_output=True, check=False).returncode:  # noqa: S603
            return None
    return command


def main() -> int:
    command = installed()
    if command is None:
        print(f"not checked: {TOOL} cannot be installed here; is a package index reachable?")
        return 0
    asked = [str(command), "--requirement", str(LOCK), "--no-deps", "--disable-pip"]
    asked += ["--format", "json", "--progress-spinner", "off", "--timeout", "30"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    code, told = judge(done.stdout, done.stderr)
    print(told)
    return code


if __name__ == "__main__":
    sys.exit(main())
