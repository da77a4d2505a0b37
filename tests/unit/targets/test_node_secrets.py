"""The secrets of a node: where they come from, who gets them, and what is told without them."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.serving import ALL, Serving
from duebook.secret_sources import SecretSource
from duebook.targets.node_secrets import MOST_BYTES, NodeSecrets, SecretFailed, offered_names
from duebook.targets.spawner import Spawner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUE = "s3cret-value"


@pytest.fixture(scope="module")
def spawner() -> Iterator[Spawner]:
    with Spawner() as opened:
        yield opened


def of(kind: Any, *place: str, **more: Any) -> dict[str, dict[str, SecretSource]]:
    return {"shop": {"KEY": SecretSource(kind, place, **more)}}


def told(secrets: NodeSecrets, namespace: str = "shop", name: str = "KEY") -> str:
    with pytest.raises(SecretFailed) as caught:
        secrets.get(namespace, name)
    assert VALUE not in str(caught.value)
    return str(caught.value)


def test_a_variable_is_read_at_every_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = NodeSecrets(of("env", "SHOP_KEY"))
    assert "the variable SHOP_KEY is not set" in told(secrets)
    monkeypatch.setenv("SHOP_KEY", VALUE)
    assert secrets.get("shop", "KEY") == VALUE
    monkeypatch.setenv("SHOP_KEY", "abc")
    assert "fewer than 4 characters" in told(secrets)


def test_a_namespace_without_it_does_not_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    secrets = NodeSecrets(of("env", "SHOP_KEY"))
    assert told(secrets, "billing") == (
        f'secret "KEY" is not available to namespace "billing" on node "{socket.gethostname()}"; '
        "add it to [secrets.billing] in the duebook.toml of the node, and restart it"
    )
    assert not secrets.offers_any("billing")
    assert 'secret "OTHER" is not available to namespace "shop"' in told(secrets, name="OTHER")


def test_a_file_loses_its_last_line_end_and_is_read_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    secrets = NodeSecrets(of("file", str(file)))
    assert f"{file}: No such file or directory" in told(secrets)
    file.write_text(f"{VALUE}\r\n")
    file.chmod(0o600)
    assert secrets.get("shop", "KEY") == VALUE
    assert caplog.text == ""
    file.chmod(0o604)
    file.write_text("s3cret-rotated\n")
    assert {secrets.get("shop", "KEY") for _ in range(3)} == {"s3cret-rotated"}
    assert caplog.text.count("every user of this machine can read the secret in") == 1
    assert "s3cret" not in caplog.text


def test_what_is_no_short_text_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    secrets = NodeSecrets(of("file", str(file)))
    file.write_bytes(b"x" * (MOST_BYTES + 1))
    assert "more than 65,536 bytes" in told(secrets)
    file.write_bytes(b"\xff\xfe\xff\xfe")
    assert "not text in UTF-8" in told(secrets)
    file.write_bytes(b"abcd\0")
    assert "contains NUL" in told(secrets)
    file.unlink()
    os.mkfifo(file)
    assert "is not a file" in told(secrets)


def test_what_a_command_prints_is_kept_for_a_while(tmp_path: Path, spawner: Spawner) -> None:
    now, count = [0.0], tmp_path / "count"
    script = f"echo x >> {count}; echo $(wc -l < {count})-$TOKEN; echo noise >&2"
    source = of("command", "/bin/sh", "-c", script, pass_env=("TOKEN",))
    os.environ["TOKEN"] = VALUE
    try:
        secrets = NodeSecrets(source, spawner, lambda: now[0])
        assert [secrets.get("shop", "KEY") for _ in range(2)] == [f"1-{VALUE}"] * 2
        now[0] = 299
        assert secrets.get("shop", "KEY") == f"1-{VALUE}"
        now[0] = 300
        assert secrets.get("shop", "KEY") == f"2-{VALUE}"
    finally:
        del os.environ["TOKEN"]


def test_a_command_that_fails_is_not_tried_again_at_once(tmp_path: Path, spawner: Spawner) -> None:
    now, count = [0.0], tmp_path / "count"
    script = f"echo x >> {count}; echo {VALUE}; exit 3"
    secrets = NodeSecrets(of("command", "/bin/sh", "-c", script), spawner, lambda: now[0])
    for _ in range(3):
        assert "ended with exit code 3; run it in a shell as the user of the node" in told(secrets)
    assert count.read_text() == "x\n"
    now[0] = 5
    told(secrets)
    assert count.read_text() == "x\nx\n"


def test_a_command_that_cannot_start_or_prints_too_much_is_told(spawner: Spawner) -> None:
    assert "could not be started" in told(NodeSecrets(of("command", "/no/such"), spawner))
    long = of("command", "/bin/sh", "-c", "yes | head -c 100000")
    assert "more than 65,536 bytes" in told(NodeSecrets(long, spawner))


def test_a_node_announces_the_names_for_the_namespaces_that_it_serves() -> None:
    sources = of("env", "A") | {"billing": {"B": SecretSource("env", ("B",))}, "none": {}}
    assert offered_names(sources, ALL) == {"billing": ["B"], "shop": ["KEY"]}
    assert offered_names(sources, Serving(("shop",))) == {"shop": ["KEY"]}


def test_a_command_that_takes_too_long_is_ended(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.targets.node_secrets.LONGEST_COMMAND", 0.05)
    secrets = NodeSecrets(of("command", "/bin/sh", "-c", "exec sleep 60"), spawner)
    assert "took longer than 0.05 s" in told(secrets)
