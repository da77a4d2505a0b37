"""Settings: flag over environment over file over default; names and ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from duebook.errors import Invalid
from duebook.ids import check_name, looks_like_id, new_id
from duebook.settings import Settings, database_path, load_settings
from duebook.targets.command_setup import read_pass_env


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "duebook.toml"
    file.write_text('namespace = "file"\ndatabase_url = "file.db"\n')
    assert load_settings({}, {}, tmp_path / "none.toml") == Settings()
    assert load_settings({}, {}, file) == Settings("file.db", "file")
    environ = {"DUEBOOK_NAMESPACE": "environ"}
    assert load_settings({}, environ, file) == Settings("file.db", "environ")
    assert load_settings({"namespace": "flag"}, environ, file).namespace == "flag"
    assert load_settings({}, {"DUEBOOK_HTTP_ALLOW": "127.0.0.1"}, file).http_allow == "127.0.0.1"


def test_what_commands_get_is_set_by_a_list_or_a_text(tmp_path: Path) -> None:
    file = tmp_path / "duebook.toml"
    file.write_text('pass_env = ["EDITOR", "AWS_*"]\nrun_as = "jobs"\n')
    found = load_settings({"pass_env": ""}, {}, file)
    assert (read_pass_env(found.pass_env), found.run_as) == (("EDITOR", "AWS_*"), "jobs")
    environ = {"DUEBOOK_PASS_ENV": "A, B", "DUEBOOK_RUN_AS": "others"}
    found = load_settings({}, environ, file)
    assert (read_pass_env(found.pass_env), found.run_as) == (("A", "B"), "others")


def test_a_listen_url_is_one_of_postgres_and_shows_no_password(tmp_path: Path) -> None:
    environ = {"DUEBOOK_LISTEN_URL": "postgresql://server/books"}
    found = load_settings({}, environ, tmp_path / "none.toml")
    assert found.listen_url == "postgresql://server/books"
    with pytest.raises(Invalid, match="listen_url") as caught:
        Settings(listen_url="mysql://u:secret@h/d")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("port", ["x", "-1", "65536", "123456", "７"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    assert Settings(port="0").port == "0"
    with pytest.raises(Invalid, match="is not a number from 0 to 65535"):
        Settings(port=port)


@pytest.mark.parametrize("text", ["colour = 1", "namespace = ", "\xff"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "duebook.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(Invalid, match=r"duebook\.toml"):
        load_settings({}, {}, file)


def test_database_addresses() -> None:
    assert database_path("sqlite:///a/b.db") == Path("a/b.db")
    assert database_path("sqlite:////a/b.db") == Path("/a/b.db")
    assert database_path("b.db") == Path("b.db")
    for bad in ("", "sqlite:///", "mysql://u:secret@h/d", "a\0b"):
        with pytest.raises(Invalid) as caught:
            database_path(bad)
        assert "secret" not in str(caught.value)


def test_an_id_and_a_name_cannot_be_confused() -> None:
    assert looks_like_id(new_id())
    assert check_name("a.b-c_9") == "a.b-c_9"
    for bad in (new_id(), "", "A", "-a", "a b", "a/b", "a" * 129, "é", None, 5):
        with pytest.raises(Invalid, match="name"):
            check_name(bad)
