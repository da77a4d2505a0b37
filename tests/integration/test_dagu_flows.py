"""A file of Dagu on a real node: its directory, its variables and secrets, its outputs and actions,
and a container through a stand-in engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.flow_worlds import ended, log_of, steps, write_flow
from tests.support.nodes import open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.nodes import World

FLOW = """\
dotenv: .env.local
secrets:
  - {name: TOKEN, provider: env, key: PROD_TOKEN}
steps:
  - id: build
    working_dir: work
    run: |
      printf 'tag=v1\\n' >> "$DAGU_OUTPUT_FILE"
      printf 'meta<<END\\n{"a": "%s"}\\nEND\\n' "$GREETING" >> "$DAGU_OUTPUT_FILE"
      echo "in ${PWD##*/} with $TOKEN"
    stdout: logs/build.log
    outputs:
      - name: tag
      - {name: meta, type: json}
  - id: pick
    action: jq.filter
    with: {filter: .a, data: '${steps.build.outputs.meta}', raw: true}
    output: PICKED
  - id: text
    action: template.render
    with: {data: {who: '${PICKED}', tag: '${steps.build.outputs.tag}'}, template: '{{ .who }} {{ .tag }}'}
    depends: pick
  - id: image
    container: {image: 'alpine:3', volumes: ['./work:/w']}
    run: echo 'from ${steps.build.outputs.tag}'
  - id: bad
    run: echo nothing
    outputs: [{name: x}]
    continue_on: failed
"""  # noqa: E501
ENGINE = '#!/bin/sh\necho "engine $*"\n'


def test_a_file_of_dagu_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_world(tmp_path, None) as world:
        _run_release(world, monkeypatch)


def _run_release(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_flow(world, "release", FLOW)
    (folder / "work").mkdir()
    (folder / ".env.local").write_text("# ours\nexport GREETING='hello ${you}'\n")
    engine = world.folder / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:/usr/bin:/bin")
    (world.folder / "duebook.toml").write_text(
        '[secrets.default]\nTOKEN = {file = "token"}\n', "utf-8"
    )
    (world.folder / "token").write_text("s3cr3t-value")
    world.up("--flows", str(folder))
    eventually(lambda: _known(world))
    run = ended(world, world.book.flows.start("release"))
    found = steps(world, run)
    assert log_of(world, found["build"]) == ["in work with ***"]
    assert (folder / "work" / "logs" / "build.log").read_text() == "in work with s3cr3t-value\n"
    assert log_of(world, found["pick"]) == ["hello ${you}"]
    assert log_of(world, found["text"]) == ["hello ${you} v1"]
    (called,) = log_of(world, found["image"])
    assert called.startswith(f"engine run --rm --volume {folder.resolve()}/work:/w --env ")
    assert called.endswith(" alpine:3 echo from v1")
    assert 'did not write the output "x"' in (found["bad"].error or "")


def _known(world: World) -> bool:
    return any(view.name == "release" for view in world.book.flows.list(10))
