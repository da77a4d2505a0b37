"""What `make dist` puts on the shelf: the wheel is the same whoever builds it, has all that it
needs, and works in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tools.build_release import complete, digest
from tools.licences import needed

from duebook.version import __version__

ROOT = Path(__file__).parents[2]


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603
        [*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, folder: Path) -> Path:
    at = {"SOURCE_DATE_EPOCH": "1700000000"}
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source, env=at)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_built_from_the_sdist_is_the_same(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build("wheel", tmp_path / f"duebook-{__version__}", tmp_path / "wheel")
    assert digest(again) == digest(wheel)


def test_the_wheel_has_the_package_with_its_types_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "duebook",
        f"duebook-{__version__}.dist-info",
    }
    source = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    ours = {str(path.relative_to(ROOT / "src")) for path in source if path.suffix != ".pyc"}
    assert ours <= {*names}
    assert "duebook/py.typed" in names


def test_the_parts_are_those_of_a_node_with_their_licences() -> None:
    """As the generator writes them, from a lock file that also has what builds the package."""
    packages = needed("duebook")
    names = [*packages, "hatchling"]
    raw = {
        "metadata": {"component": {"bom-ref": "root-component", "name": "duebook"}},
        "components": [
            {"bom-ref": f"L{n}", "name": name, "description": f"line {n}"}
            for n, name in enumerate(names)
        ],
        "dependencies": [{"ref": f"L{n}"} for n in range(len(names))],
    }
    told = complete(raw, packages)
    assert told["metadata"]["component"]["version"] == __version__
    assert [part["name"] for part in told["components"]] == [*packages]
    assert {"click", "starlette", "uvicorn"} <= {*packages}
    for part in told["components"]:
        assert part["licenses"][0]["license"]["name"] not in ("", "unknown"), part["name"]
        assert "description" not in part
    refs = {part["bom-ref"] for part in told["components"]}
    assert {one["ref"] for one in told["dependencies"]} == refs


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "clean", with_pip=False)
    python = tmp_path / "clean" / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, "install", *quiet, wheel, cwd=tmp_path)
    (packages,) = (tmp_path / "clean").glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))  # not its own .pth files
    duebook = (tmp_path / "clean" / "bin" / "duebook", "--database", tmp_path / "books.db")
    code = "import duebook; print(duebook.__file__)"
    assert str(packages) in run(python, "-c", code, cwd=tmp_path)
    run(*duebook, "add", "hello", "--daily", "09:00", "--", "echo", "hello", cwd=tmp_path)
    assert "09:00 UTC" in run(*duebook, "preview", "hello", cwd=tmp_path)
