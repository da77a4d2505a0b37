"""Entries of `beat_schedule` as schedules: the same due times as Celery's, or a refusal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar

from duebook.errors import Invalid
from duebook.integrations.celery.beat import beat_settings
from duebook.integrations.celery.entries import entry_name, read_entries, trigger_of, zone_name
from duebook.model.definition import load_spec
from duebook.model.target import CeleryTarget
from duebook.targets.templates import check_templates, rendered
from duebook.triggers.load import load_trigger
from tests.support.targets import claim_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def app_of(entries: dict[str, Any] | None = None, **conf: Any) -> Celery:
    app = Celery("shop", backend="cache+memory://")
    app.conf.update(beat_schedule=entries or {}, **conf)
    return app


def definition(entry: dict[str, Any], **conf: Any) -> dict[str, Any]:
    form = {"task": "shop.add", "schedule": 60.0} | entry
    return read_entries(app_of({"entry": form}, **conf))["entry"]


def refusal(entry: dict[str, Any], **conf: Any) -> str:
    with pytest.raises(Invalid) as raised:
        definition(entry, **conf)
    return str(raised.value)


@pytest.mark.parametrize(
    ("when", "cron"),
    [
        (crontab(), "* * * * *"),
        (crontab(minute=0, hour=9), "0 9 * * *"),
        (crontab(minute="*/15", hour="9-17", day_of_week="mon-fri"), "*/15 9-17 * * 1-5"),
        (crontab(minute="0,30", hour="22-4"), "0,30 0-4,22,23 * * *"),
        (crontab(minute=5, day_of_week="fri-mon"), "5 * * * 0,1,5,6"),
        (crontab(minute=0, hour=0, day_of_month="1", month_of_year="*/3"), "0 0 1 */3 *"),
        (crontab(minute={1, 2, 3, 10}, hour="*/6"), "1-3,10 */6 * * *"),
    ],
)
def test_a_crontab_becomes_the_cron_expression_that_means_the_same(when: Any, cron: str) -> None:
    assert trigger_of(app_of(), when) == {"cron": cron}


@pytest.mark.parametrize(
    "when",
    [
        crontab(minute="*/20", hour="8-10", day_of_week="tue,thu"),
        crontab(minute=0, hour=0, day_of_month="*/2", day_of_week="mon"),
        crontab(minute=0, hour="22-2", day_of_month="1-7", day_of_week="mon"),
        crontab(minute=30, hour=12, day_of_month="*/10", day_of_week="0-3"),
        crontab(minute=0, hour=6, day_of_month="13", day_of_week="fri", month_of_year="feb,mar"),
    ],
)
def test_celery_itself_finds_the_same_due_times(when: Any) -> None:
    app = app_of()
    when.app = app
    ours = load_trigger(trigger_of(app, when), "entry").anchored(START)
    at = START
    for _ in range(20):
        due = ours.next_after(at)
        assert due is not None
        when.nowfun = lambda at=at: at
        assert at + when.remaining_estimate(at) == due
        at = due


@pytest.mark.parametrize(
    ("when", "relative", "trigger"),
    [
        (30.0, False, {"every": "30s"}),
        (timedelta(minutes=15), False, {"every": "15m"}),
        (schedule(3600), False, {"every": "1h"}),
        (timedelta(hours=1), True, {"every": "1h", "anchor": "2000-01-01T00:00:00+00:00"}),
    ],
)
def test_an_interval_counts_from_its_creation_and_a_relative_one_from_midnight(
    when: Any, relative: bool, trigger: dict[str, Any]
) -> None:
    found = trigger_of(app_of(), when, relative)
    assert found == trigger | ({"tz": "UTC"} if relative else {})


def test_a_relative_interval_of_days_keeps_midnight_when_clocks_change() -> None:
    form = trigger_of(app_of(timezone="Europe/Brussels"), timedelta(days=1), relative=True)
    trigger, at, found = load_trigger(form, "entry"), datetime(2026, 3, 28, tzinfo=UTC), []
    for _ in range(3):
        at = trigger.next_after(at)  # type: ignore[assignment]
        found.append(at)
    assert [(b - a).total_seconds() / 3600 for a, b in pairwise(found)] == [23.0, 24.0]


@pytest.mark.parametrize(
    ("conf", "zone"),
    [
        ({}, "UTC"),
        ({"timezone": "Europe/Brussels"}, "Europe/Brussels"),
        ({"timezone": "Asia/Tokyo", "enable_utc": False}, "Asia/Tokyo"),
    ],
)
def test_crontabs_are_read_in_the_time_zone_of_the_app(conf: dict[str, Any], zone: str) -> None:
    assert zone_name(app_of(**conf)) == zone
    assert trigger_of(app_of(**conf), crontab()).get("tz", "UTC") == zone


def test_without_utc_and_a_time_zone_that_of_the_machine_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "America/New_York")
    assert zone_name(app_of(enable_utc=False)) == "America/New_York"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"schedule": solar.__new__(solar)}, "its schedule, solar, depends on the sun"),
        ({"schedule": 0.5}, 'its schedule "0:00:00.500000" is not a whole number of seconds'),
        ({"schedule": None}, 'it needs a "task" and a "schedule"'),
        ({"task": ""}, 'it needs a "task" and a "schedule"'),
        ({"options": {"countdown": 5}}, 'option "countdown" is not supported; use one of queue'),
        ({"options": {"expires": START}}, "option expires"),
        ({"options": {"priority": "high"}}, "target priority"),
        ({"args": (object(),)}, "target args is not valid JSON"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_with_the_name_of_its_entry(
    entry: dict[str, Any], told: str
) -> None:
    found = refusal(entry)
    assert found.startswith('beat_schedule: entry "entry": ')
    assert told in found


def test_all_wrong_entries_are_told_at_once() -> None:
    entries = {f"e{n}": {"task": "t", "schedule": 0.1} for n in range(25)}
    with pytest.raises(Invalid, match="and 5 more") as raised:
        read_entries(app_of(entries))
    assert str(raised.value).count("entry ") == 20


def test_two_entries_of_the_same_name_are_refused() -> None:
    form = {"task": "t", "schedule": 60}
    with pytest.raises(Invalid, match='both would be schedule "send-mail"'):
        read_entries(app_of({"Send mail": form, "send-mail": form}))


@pytest.mark.parametrize(
    ("entry", "name"),
    [("add", "add"), ("Add every 30s!", "add-every-30s"), ("a/b.c", "a-b.c"), ("É-x", "x")],
)
def test_a_schedule_has_the_name_of_its_entry_as_far_as_that_can_be(entry: str, name: str) -> None:
    assert entry_name(entry) == name


def test_options_and_arguments_become_those_of_the_target() -> None:
    options = {"queue": "mail", "expires": 90, "priority": 3, "headers": {"tenant": "a"}}
    found = definition({"args": (1,), "kwargs": {"y": 2}, "options": options})
    assert found["overlap"] == "allow"
    assert load_spec(found, "entry").target == CeleryTarget(
        "shop.add",
        (1,),
        {"y": 2},
        queue="mail",
        expires=timedelta(seconds=90),
        priority=3,
        headers=(("tenant", "a"),),
    )


def test_braces_in_arguments_are_not_templates() -> None:
    texts = ["{{ name }}", "{% if %}", "{# no #}", "{{", "a {{ b"]
    found = definition({"args": tuple(texts)})
    assert not check_templates(load_spec(found, "entry"))
    target = rendered(claim_of(found["target"])).spec.target
    assert isinstance(target, CeleryTarget)
    assert list(target.args) == texts


def test_nobody_waits_for_results_that_the_app_ignores() -> None:
    app = app_of({"a": {"task": "shop.quiet", "schedule": 60}})

    @app.task(name="shop.quiet", ignore_result=True, shared=False)
    def quiet() -> None: ...

    assert read_entries(app)["a"]["target"]["wait"] is False
    assert "wait" not in definition({})["target"]
    assert definition({"options": {"ignore_result": True}})["target"]["wait"] is False


def test_old_results_are_cleaned_up_where_the_backend_does_not_do_so() -> None:
    app = Celery("shop", backend="file:///tmp")
    assert list(read_entries(app)) == ["celery.backend_cleanup"]


def test_settings_come_from_the_environment_before_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(duebook_database_url="sqlite:///of-app.db", duebook_namespace="shop")
    monkeypatch.delenv("DUEBOOK_DATABASE_URL", raising=False)
    assert beat_settings(app).database_url == "sqlite:///of-app.db"
    assert beat_settings(app).namespace == "shop"
    monkeypatch.setenv("DUEBOOK_DATABASE_URL", "sqlite:///of-environment.db")
    assert beat_settings(app).database_url == "sqlite:///of-environment.db"
