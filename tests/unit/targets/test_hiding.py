"""What is hidden in what a run prints."""

from __future__ import annotations

from duebook.targets.hiding import hide_in, hiding, hiding_payload, hiding_run
from tests.support.targets import claim_of


def test_the_longest_secret_is_hidden_first() -> None:
    assert hiding(["s3cret", "s3cret-and-more"])("a s3cret-and-more, a s3cret") == "a ***, a ***"


def test_values_of_variables_are_hidden_unless_they_are_short() -> None:
    env = {"KEY": "hunter2hunter2", "MODE": "full", "PEM": "-----BEGIN\nMIIEvQIBADAN\n--"}
    hide = hiding_run(claim_of({"command": ["env"], "env": env}))
    printed = "KEY=hunter2hunter2 MODE=full MIIEvQIBADAN"
    assert hide(printed) == "KEY=*** MODE=full ***"


def test_of_other_targets_nothing_is_hidden() -> None:
    assert hiding_run(claim_of("digest"))("hunter2hunter2") == "hunter2hunter2"


def test_secrets_of_a_payload_are_hidden_where_they_are_printed() -> None:
    payload = {"db": [{"password": "hunter2hunter2", "host": "db.example.com"}]}
    hide = hiding_run(claim_of("digest", payload))
    assert hide("hunter2hunter2@db.example.com") == "***@db.example.com"
    form = {"command": ["login", "hunter2hunter2", "db.example.com"]}
    assert hide_in(form, hiding_payload(payload)) == {"command": ["login", "***", "db.example.com"]}


def test_the_secrets_of_a_request_are_hidden_where_a_server_echoes_them() -> None:
    http = {
        "url": "https://example.com/?api_key=s3cret%2Fquery",
        "headers": {"Authorization": "Bearer s3cret-header", "Accept": "text/plain"},
        "json": {"user": "ann", "pwd": 's3cret"json'},
    }
    hide = hiding_run(claim_of({"http": http}))
    assert hide('s3cret%2Fquery s3cret/query s3cret-header "s3cret\\"json" s3cret"json') == (
        '*** *** *** "***" ***'
    )
    assert hide("Bearer text/plain ann") == "Bearer text/plain ann"
