"""Schedule templates: which defaults are kept, and how a schedule's own fields override them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.model.codec import encode
from duebook.model.definition import load_changes, load_spec
from duebook.model.retry import Retry
from duebook.model.schedule import InvalidSchedule
from duebook.model.template import (
    ANY_SCHEDULE,
    ScheduleTemplate,
    complete,
    defaults_form,
    given_fields,
)
from duebook.triggers import cron, every

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def kept(**defaults: Any) -> dict[str, Any]:
    """What a template keeps of these."""
    given = given_fields(defaults)
    form = defaults_form(given, load_spec(complete(given), ANY_SCHEDULE))
    assert json.loads(json.dumps(form)) == form
    return form


def shown(defaults: dict[str, Any]) -> Any:
    template = ScheduleTemplate("default", "hook", defaults, NOW, "ann", NOW, "ann")
    return encode(template)["defaults"]


def test_any_part_of_a_definition_is_kept_in_its_json_form() -> None:
    assert kept(timeout=timedelta(minutes=90), retry=Retry(attempts=3)) == {
        "timeout": "1h30m",
        "retry": Retry(attempts=3).to_json(),
    }
    assert kept(target="digest", start_at=NOW) == {
        "target": {"task": "digest"},
        "start_at": "2026-03-01T00:00:00Z",
    }


def test_what_is_given_is_kept_even_when_it_is_the_default_anyway() -> None:
    defaults = {"overlap": "skip", "labels": {}, "exclude": [], "payload": {}, "priority": 0}
    assert kept(**defaults) == defaults
    load_spec(complete(defaults), "job")


def test_none_gives_nothing() -> None:
    assert kept(timeout=None, trigger=None, queue="slow") == {"queue": "slow"}


@pytest.mark.parametrize(
    ("trigger", "form"),
    [
        ("H 2 * * *", {"cron": "H 2 * * *"}),
        ({"cron": "H 2 * * *", "tz": "Asia/Tokyo"}, {"cron": "H 2 * * *", "tz": "Asia/Tokyo"}),
        ({"cron": "H 2 * * *", "key": "mine"}, {"cron": "H 2 * * *", "key": "mine"}),
        ({"cron": "H 2 * * *", "key": None}, {"cron": "H 2 * * *"}),
        (cron("H 2 * * *", key=ANY_SCHEDULE), {"cron": "H 2 * * *", "key": ANY_SCHEDULE}),
        (["H 2 * * *"], {"cron": "H 2 * * *"}),
        (("H 2 * * *", every("5m")), [{"cron": "H 2 * * *"}, {"every": "5m"}]),
        ("@every 1h30m", {"every": "1h30m"}),
    ],
)
def test_a_trigger_is_kept_without_the_key_that_its_schedule_gives_it(
    trigger: Any, form: Any
) -> None:
    assert kept(trigger=trigger) == {"trigger": form}


def test_h_hashes_the_name_of_each_schedule() -> None:
    defaults = kept(cron="H 2 * * *", tz="Europe/Brussels")
    for name in ("orders", "customers"):
        spec = load_spec(load_changes(defaults, {"target": "dump"}), name)
        assert spec.triggers == (cron("H 2 * * *", tz="Europe/Brussels", key=name),)


def test_what_is_given_replaces_a_whole_field_of_the_template() -> None:
    defaults = kept(
        cron="0 2 * * *", tz="Asia/Tokyo", payload={"a": 1, "b": 2}, labels={"team": "data"}
    )
    form = load_changes(defaults, {"payload": {"a": 3}, "cron": "0 4 * * *"})
    assert form == {
        "trigger": {"cron": "0 4 * * *"},
        "payload": {"a": 3},
        "labels": {"team": "data"},
    }


def test_a_field_that_is_none_has_the_default_again() -> None:
    form = load_changes(kept(cron="@daily", target="dump", overlap="queue"), {"overlap": None})
    assert load_spec(form, "job").overlap == "skip"


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        kept(cron="99 * * * *", overlap="maybe", color="red", jitter="2d", target=[])
    assert set(caught.value.problems) == {"trigger", "overlap", "color", "jitter", "target"}


def test_a_template_may_depend_on_any_schedule() -> None:
    dependency = {"schedule": "extract", "within": "1h"}
    assert kept(depends_on=dependency) == {"depends_on": [dependency]}
    with pytest.raises(InvalidSchedule, match="cannot depend on itself"):
        load_spec(complete(kept(depends_on=dependency)), "extract")


def test_headers_that_may_be_secret_are_hidden() -> None:
    headers = {"X-Key": "s3cret", "Accept": "text/csv"}
    defaults = kept(target={"http": {"url": "https://example.com", "headers": headers}})
    assert defaults["target"]["http"]["headers"] == headers
    assert shown(defaults)["target"]["http"]["headers"] == {"X-Key": "***", "Accept": "text/csv"}


def test_a_target_that_nobody_here_can_read_is_hidden_as_a_whole() -> None:
    assert shown({"target": {"carrier-pigeon": "s3cret"}, "queue": "slow"}) == {
        "target": "***",
        "queue": "slow",
    }
