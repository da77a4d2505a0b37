"""A file of Dagu on a real node: its directory, its variables and secrets, its outputs and actions,
and a container through a stand-in engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.flow_worlds import ended, log_of, register, steps, write_flow
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


COMPUTED = """\
params:
  - DAY: "`echo first`"
env:
  - AT: "`date +%s%N; pwd`"
  - BOTH: "`echo ${DAY} seen`"
steps:
  - command: echo "$DAY/$AT/$BOTH"
    output: FIRST
  - command: echo "$DAY/$AT/$BOTH"
    output: SECOND
  - command: '[ "$FIRST" = "$SECOND" ]'
"""


def test_the_commands_of_a_flow_are_executed_once_in_each_run(tmp_path: Path) -> None:
    with open_world(tmp_path, None) as world:
        folder = write_flow(world, "computed", COMPUTED)
        write_flow(world, "broken", 'env: {A: "`exit 3`"}\nsteps: [ls]\nhandler_on: {exit: ls}\n')
        register(world, folder)
        world.node()
        run, given = (
            world.book.flows.start("computed"),
            world.book.flows.start("computed", {"DAY": "`id`"}),
        )
        assert ended(world, run).status == ended(world, given).status == "succeeded"
        assert steps(world, run)["step-1"].output != steps(world, given)["step-1"].output
        assert str(steps(world, run)["step-1"].output).startswith("first/")
        assert str(steps(world, given)["step-1"].output).startswith("`id`/")
        assert str(steps(world, given)["step-1"].output).endswith("/`id` seen")
        broken = ended(world, world.book.flows.start("broken"))
        assert (broken.status, broken.error) == ("failed", "step computed values failed")
        failed = steps(world, broken)
        assert failed["computed values"].error == (
            'the command of env.A, "exit 3", failed with exit code 3'
        )
        assert failed["step-1"].reason == "values_failed"
        assert "handler_on.exit" not in failed


DERIVED = """\
params:
  - DAY: "`echo 2026-01-31T00:00:00Z`"
  - API_TOKEN: "`printf 'fi\\"rst!'`"
env:
  - MONTH: "{{ params.DAY | time('%m') }}"
  - TOLD: "`echo said $API_TOKEN`"
  - AT: "https://host/?token=`echo later8`"
steps:
  - command: '[ "$MONTH$API_TOKEN$AT" = "01fi\\"rst!https://host/?token=later8" ]'
"""


def test_steps_get_secrets_that_commands_print_and_nobody_sees_them(tmp_path: Path) -> None:
    with open_world(tmp_path, None) as world:
        folder = write_flow(world, "derived", DERIVED)
        told = "env: {B_TOKEN: s3cr3t-x, A: '`echo at >&2; echo \"no $B_TOKEN\" >&2; exit 3`'}\n"
        write_flow(world, "failing", told + "steps: [ls]\n")
        write_flow(world, "large", "env: {A: '`head -c 70000 /dev/zero`'}\nsteps: [ls]\n")
        register(world, folder)
        world.node()
        run = ended(world, world.book.flows.start("derived"))
        found = steps(world, run)
        assert run.status == "succeeded", (run.error, {n: r.error for n, r in found.items()})
        computed = found["computed values"]
        shown = computed.show_output(computed.output)
        assert shown["1"] == shown["3"] == "***", shown
        assert (shown["0"], shown["2"]) == ("2026-01-31T00:00:00Z", "said ***")
        failed = steps(world, ended(world, world.book.flows.start("failing")))
        error = failed["computed values"].error or ""
        assert error.startswith('the command of env.A, "echo at')
        assert error.endswith("failed with exit code 3: no ***")
        large = steps(world, ended(world, world.book.flows.start("large")))
        assert large["computed values"].error == (
            'the command of env.A, "head -c 70000 /dev/zero": it printed 70,000 bytes; '
            "at most 65,536 can be kept"
        )
