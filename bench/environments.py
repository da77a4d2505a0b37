"""Installs each peer into its own environment, which `make bench` does first.

    python -m bench.environments [NAME ...]

Peers need other versions of the same libraries than Duebook and each other. One that cannot be
installed is left out, and the others are measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PEERS", "Peer", "argv", "environment", "install", "is_installed", "version"]

HOME: Final = Path(os.environ.get("DUEBOOK_BENCH_PEERS") or Path(sys.prefix) / "peers")
PROGRAMS: Final = Path(__file__).with_name("peer_programs")
DONE: Final = ".duebook-bench"
"""The file in an environment that records what was installed there."""
QUIETLY: Final = ("--quiet", "--disable-pip-version-check")
NPM: Final = ("--silent", "--no-audit", "--no-fund", "--no-save", "--no-package-lock")


@dataclass(frozen=True)
class Peer:
    """Another scheduler or queue, its program file, and the packages it needs."""

    program: str
    package: str
    needs: tuple[str, ...]
    """the first is the package itself"""
    option: str = ""
    """an additional argument of the program"""

    @property
    def on_node(self) -> bool:
        return self.program.endswith(".js")

    @property
    def home(self) -> Path:
        return HOME / self.package


GRAPHILE: Final = ("graphile-worker@0.17.3",)
PEERS: Final[dict[str, Peer]] = {
    "APScheduler 3": Peer(
        "run_apscheduler3.py",
        "apscheduler3",
        ("apscheduler==3.11.3", "sqlalchemy==2.1.8", "psycopg-binary==3.3.8", "psycopg==3.3.8"),
    ),
    "APScheduler 4": Peer(
        "run_apscheduler4.py",
        "apscheduler4",
        (
            "apscheduler==4.0.0a6",
            "sniffio",
            "sqlalchemy>=2,<2.1",
            "asyncpg==0.32.0",
            "psycopg-binary==3.3.8",
        ),
    ),
    "Celery beat": Peer("run_celery.py", "celery", ("celery==5.6.3", "redis==8.1.0", "packaging")),
    "Procrastinate": Peer(
        "run_procrastinate.py",
        "procrastinate",
        ("procrastinate==3.10.0", "psycopg-binary==3.3.8", "psycopg==3.3.8"),
    ),
    "pgqueuer": Peer("run_pgqueuer.py", "pgqueuer", ("pgqueuer==1.6.0", "asyncpg==0.32.0")),
    "chancy": Peer("run_chancy.py", "chancy", ("chancy==0.26.0",)),
    "graphile-worker": Peer("run_graphile_worker.js", "graphile-worker", GRAPHILE, "plain"),
    "graphile-worker, local queue": Peer(
        "run_graphile_worker.js", "graphile-worker", GRAPHILE, "local"
    ),
    "pg-boss": Peer("run_pg_boss.js", "pg-boss", ("pg-boss@10.4.2",)),
}


def main() -> None:
    wanted = sys.argv[1:] or list(PEERS)
    for name in wanted:
        install(name)


def install(name: str) -> bool:
    """Whether the peer can be used now; prints why if not."""
    peer = PEERS[name]
    if is_installed(name):
        return True
    print(f"installing {name}", flush=True)
    shutil.rmtree(peer.home, ignore_errors=True)
    try:
        found = _install_with_npm(peer) if peer.on_node else _install_with_pip(peer)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name} could not be installed and is left out: {_last_line(error)}", flush=True)
        return False
    (peer.home / DONE).write_text(json.dumps({"needs": peer.needs, "version": found}), "utf-8")
    return True


def is_installed(name: str) -> bool:
    return _done(name).get("needs") == list(PEERS[name].needs)


def version(name: str) -> str | None:
    """The installed version; None if it is not installed."""
    found = _done(name).get("version")
    return None if found is None else str(found)


def argv(name: str, *words: object) -> list[str]:
    """The command that runs the program of a peer."""
    peer = PEERS[name]
    runner = "node" if peer.on_node else str(peer.home / "bin" / "python")
    more = [peer.option] if peer.option else []
    return [runner, str(PROGRAMS / peer.program), *map(str, words), *more]


def environment(name: str) -> dict[str, str]:
    """For the process of a peer: without our directories on its path."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return own | {"NODE_PATH": str(PEERS[name].home / "node_modules"), "NO_LOG_SUCCESS": "1"}


def _done(name: str) -> dict[str, object]:
    try:
        found = json.loads((PEERS[name].home / DONE).read_text("utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return dict(found)


def _install_with_pip(peer: Peer) -> str:
    _run([sys.executable, "-m", "venv", str(peer.home)])
    python = str(peer.home / "bin" / "python")
    _run([python, "-m", "pip", "install", *QUIETLY, *peer.needs])
    distribution = peer.needs[0].partition("==")[0]
    asked = f"from importlib.metadata import version; print(version({distribution!r}))"
    return _run([python, "-c", asked]).strip()


def _install_with_npm(peer: Peer) -> str:
    peer.home.mkdir(parents=True)
    _run(["npm", "install", "--prefix", str(peer.home), *NPM, *peer.needs])
    package = peer.home / "node_modules" / peer.package / "package.json"
    return str(json.loads(package.read_text("utf-8"))["version"])


def _run(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _last_line(error: Exception) -> str:
    lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
    return lines[-1] if lines else str(error)


if __name__ == "__main__":
    main()
