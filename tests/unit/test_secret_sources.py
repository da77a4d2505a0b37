"""The setting `secrets`: tables for namespaces, from a file or a variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Invalid
from duebook.secret_sources import SecretSource, read_sources
from duebook.settings import Settings, load_settings

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
namespace = "shop"
[secrets.shop]
API_KEY = {env = "SHOP_API_KEY"}
DB = {file = "/run/secrets/db"}
MAIL = {command = ["pass", "show", "shop/mail"], pass_env = ["GNUPGHOME"]}
[secrets.billing]
API_KEY = {env = "BILLING_API_KEY"}
"""
SOURCES = {
    "shop": {
        "API_KEY": SecretSource("env", ("SHOP_API_KEY",)),
        "DB": SecretSource("file", ("/run/secrets/db",)),
        "MAIL": SecretSource("command", ("pass", "show", "shop/mail"), ("GNUPGHOME",)),
    },
    "billing": {"API_KEY": SecretSource("env", ("BILLING_API_KEY",))},
}


def test_tables_of_the_file_and_json_of_the_environment_mean_the_same(tmp_path: Path) -> None:
    file = tmp_path / "duebook.toml"
    file.write_text(FILE)
    found = load_settings({}, {}, file)
    assert found.namespace == "shop"
    assert read_sources(found.secrets) == SOURCES
    environ = {"DUEBOOK_SECRETS": found.secrets}
    assert read_sources(load_settings({}, environ, tmp_path / "none.toml").secrets) == SOURCES


def test_no_namespace_has_a_secret_by_default() -> None:
    assert read_sources(Settings().secrets) == {}


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ([], "is not a table"),
        ({"shop": 1}, "secrets.shop is not a table"),
        ({"*": {}}, r'"\*" is not a namespace'),
        ({"shop": {"a-b": {"env": "A"}}}, '"a-b" is not a name for a secret'),
        ({"shop": {"A": "s3cret"}}, "secrets.shop.A is not one of"),
        ({"shop": {"A": {"env": "A", "file": "b"}}}, "is not one of"),
        ({"shop": {"A": {"env": "s3cret-1!"}}}, "does not name an environment variable"),
        ({"shop": {"A": {"file": ""}}}, "is not a path"),
        ({"shop": {"A": {"command": "pass show"}}}, "is not a list"),
        ({"shop": {"A": {"command": []}}}, "is not a list of a program"),
        ({"shop": {"A": {"env": "A", "pass_env": ["B"]}}}, '"pass_env" is unknown beside env'),
        ({"shop": {f"A{n}": {"env": "A"} for n in range(1001)}}, "1,001 entries; at most 1,000"),
    ],
)
def test_what_is_wrong_is_named_and_never_repeats_a_value(form: Any, told: str) -> None:
    with pytest.raises(Invalid, match=told) as caught:
        Settings(secrets=json.dumps(form))
    assert "s3cret" not in str(caught.value)


def test_text_that_is_not_json_is_refused_without_repeating_it() -> None:
    with pytest.raises(Invalid, match="secrets is not valid JSON") as caught:
        read_sources("API_KEY=s3cret")
    assert "s3cret" not in str(caught.value)
