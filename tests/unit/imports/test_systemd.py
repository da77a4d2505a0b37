"""Timers and services: what is carried over, and what is named instead."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.imports.found import Import, finish
from duebook.imports.systemd import read_timers

SERVICE = "[Service]\nExecStart=/bin/true\n"


def read(timer: str, service: str = SERVICE, **more: str) -> Import:
    files = {"a.timer": timer, "a.service": service, **more}
    return finish(read_timers(files, "Europe/Brussels"), {})


def form(timer: str, service: str = SERVICE) -> dict[str, Any]:
    (found,) = read(timer, service).found
    return found.form


def test_several_calendars_a_delay_and_persistence_are_carried_over() -> None:
    timer = "[Unit]\nDescription=Back up\n[Timer]\nOnCalendar=Mon 02:30\nOnCalendar=Sun 5:00 UTC\n"
    assert form(timer + "RandomizedDelaySec=1h 30min\nPersistent=true\n") == {
        "trigger": [{"cron": "30 2 * * 1", "tz": "Europe/Brussels"}, {"cron": "0 5 * * 0"}],
        "jitter": "1h30m",
        "target": {"command": ["/bin/true"]},
        "description": "Back up",
    }


def test_a_timer_that_does_not_persist_skips_what_it_missed() -> None:
    assert form("[Timer]\nOnCalendar=daily\n")["catchup"] == "skip"


def test_an_empty_setting_forgets_those_before_it_and_drop_ins_come_last() -> None:
    timer = "[Timer]\nOnCalendar=daily\nOnCalendar=\nOnCalendar=hourly\n"
    drop_in = {"a.timer.d/10-more.conf": "[Timer]\nOnCalendar=\nOnCalendar=*:0/20\n"}
    assert form(timer)["trigger"]["cron"] == "0 * * * *"
    (found,) = read(timer, **drop_in).found
    assert found.form["trigger"]["cron"] == "*/20 * * * *"


def test_a_repeated_timer_becomes_an_interval_and_its_boot_is_named() -> None:
    (found,) = read("[Timer]\nOnBootSec=15min\nOnUnitActiveSec=1d\n").found
    assert found.form["trigger"] == {"every": "1d"}
    assert found.notes == ("a.timer:2: OnBootSec=15min is not carried over",)


def test_commands_variables_and_prefixes_become_shell_text() -> None:
    service = (
        '[Service]\nType=oneshot\nEnvironment="A=b c" D=e\nWorkingDirectory=/srv\n'
        "TimeoutStartSec=2min\nExecStartPre=-/bin/mkdir /tmp/x\n"
        'ExecStart=/bin/echo $D "${A} it\'s" \\\n   %% $$HOME\n'
    )
    assert form("[Timer]\nOnCalendar=daily\n", service) == {
        "trigger": {"cron": "0 0 * * *", "tz": "Europe/Brussels"},
        "catchup": "skip",
        "target": {
            "shell": "set -f\n{ /bin/mkdir /tmp/x || true; } &&\n"
            """/bin/echo $D "${A}"' it'"'"'s' % '$'HOME""",
            "env": {"A": "b c", "D": "e"},
            "cwd": "/srv",
        },
        "timeout": "2m",
    }


def test_settings_without_a_counterpart_are_named_by_line() -> None:
    service = "[Unit]\nAfter=x.target\n[Service]\nUser=backup\nExecStart=/bin/true\nNice=5\n"
    (found,) = read("[Timer]\nOnCalendar=daily\nAccuracySec=1s\n", service).found
    assert [note.partition(";")[0] for note in found.notes] == [
        "a.timer:3: AccuracySec=1s is not carried over",
        "a.service:2: After=x.target is not carried over",
        "a.service:4: User=backup is not carried over",
        "a.service:6: Nice=5 is not carried over",
    ]


def test_an_instance_takes_its_template_and_specifiers_are_expanded() -> None:
    files = {
        "b@home.timer": "[Timer]\nOnCalendar=daily\n",
        "b@.service": "[Service]\nExecStart=/bin/b %i %p\n",
    }
    (found,) = finish(read_timers(files, "UTC"), {}).found
    assert (found.name, found.form["target"]) == ("b-home", {"command": ["/bin/b", "home", "b"]})


def read_files(files: dict[str, str]) -> Import:
    return finish(read_timers(files, "UTC"), {})


def test_links_name_the_instances_of_a_template_and_its_drop_ins_count_for_them() -> None:
    timer = "[Timer]\nOnCalendar=daily\n"
    done = read_files(
        {
            "b@.timer": timer,
            "b@.timer.d/x.conf": "[Timer]\nOnCalendar=\nOnCalendar=hourly\n",
            "timers.target.wants/b@home.timer": timer,
            "timers.target.wants/b@mnt-caf\\xc3\\xa9\\x2dbar.timer": timer,
            "b@.service": "[Service]\nExecStart=/bin/b /%I\n",
            "b@home.service.d/y.conf": "[Service]\nWorkingDirectory=/home\n",
        }
    )
    assert not done.left
    home, cafe = done.found
    assert home.form["trigger"] == cafe.form["trigger"] == {"cron": "0 * * * *"}
    assert home.form["target"] == {"command": ["/bin/b", "/home"], "cwd": "/home"}
    assert cafe.form["target"] == {"command": ["/bin/b", "/mnt/café-bar"]}


def test_a_template_without_an_instance_is_left_out() -> None:
    done = read_files({"b@.timer": "[Timer]\nOnCalendar=daily\n", "b@.service": SERVICE})
    assert not done.found
    assert "it is a template" in str(done.left[0])


def command(line: str) -> dict[str, Any]:
    found: dict[str, Any] = form("[Timer]\nOnCalendar=daily\n", f"[Service]\nExecStart={line}\n")
    return found["target"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        (
            r"/bin/a 'it\'s' \x41\102\u00e9 \q \s.",
            {"command": ["/bin/a", "it's", "ABé", r"\q", " ."]},
        ),
        (r"/bin/a \xc3\xa9\303\251", {"command": ["/bin/a", "éé"]}),
        ("/bin/a 1 ; /bin/b 2 ;", {"shell": "/bin/a 1 &&\n/bin/b 2"}),
        (r"/bin/a \; b;c", {"command": ["/bin/a", ";", "b;c"]}),
        ("@/bin/a name x", {"command": ["/bin/a", "x"]}),
        (":/bin/a $HOME ${B}", {"command": ["/bin/a", "$HOME", "${B}"]}),
        ("/bin/a x$HOME", {"shell": "/bin/a 'x$HOME'"}),
        ("/bin/a pre${B}post", {"shell": '/bin/a pre"${B}"post'}),
        ("/bin/a $B *", {"shell": "set -f\n/bin/a $B '*'"}),
        ("/bin/a a#b ;x", {"command": ["/bin/a", "a#b", ";x"]}),
    ],
)
def test_a_command_has_the_words_that_systemd_reads(line: str, target: dict[str, Any]) -> None:
    assert command(line) == target


def test_a_sign_that_asks_for_rights_is_named() -> None:
    (found,) = read("[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=+/bin/a\n").found
    (note,) = found.notes
    assert note.startswith("a.service:2: + before /bin/a is not carried over; a command runs as")


@pytest.mark.parametrize(
    ("service", "timeout"),
    [
        ("Type=oneshot\nTimeoutStartSec=1M", "30d10h30m"),
        ("Type=oneshot\nTimeoutStartSec=1h\nTimeoutSec=500ms", "1s"),
        ("Type=oneshot\nTimeoutSec=0", None),
        ("Type=oneshot\nTimeoutStartSec=infinity", None),
        ("TimeoutSec=5s\nRuntimeMaxSec=1h", "1h"),
    ],
)
def test_the_last_limit_of_its_kind_counts(service: str, timeout: str | None) -> None:
    read_form = form("[Timer]\nOnCalendar=daily\n", f"{SERVICE}{service}\n")
    assert read_form.get("timeout") == timeout


def test_a_delay_below_a_second_is_rounded_up_and_none_is_left_out() -> None:
    assert form("[Timer]\nOnCalendar=daily\nRandomizedDelaySec=300ms\n")["jitter"] == "1s"
    assert "jitter" not in form("[Timer]\nOnCalendar=daily\nRandomizedDelaySec=0\n")


@pytest.mark.parametrize(
    ("timer", "service", "told"),
    [
        ("[Timer]\nOnBootSec=5min\n", SERVICE, "only OnBootSec"),
        ("[Timer]\n", SERVICE, "has no times"),
        ("[Timer]\nOnCalendar=never\n", SERVICE, "OnCalendar=never cannot be read"),
        ("[Timer]\nOnCalendar=daily\nUnit=b.service\n", SERVICE, "b.service is missing"),
        ("[Timer]\nOnCalendar=daily\n", "[Service]\n", "a.service has no ExecStart"),
        ("[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=%h/x\n", "specifier %h"),
        ("[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=/bin/a \\xc3\n", "cannot be read"),
        ("[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=/bin/a \\000\n", "cannot be read"),
        ("[Timer]\nOnCalendar=daily\n", '[Service]\nExecStart=/bin/a "\n', "cannot be read"),
        ("[Timer]\nOnUnitActiveSec=20ms\n", SERVICE, "not a whole number of seconds"),
        ("[Timer]\nOnUnitActiveSec=90500ms\n", SERVICE, "not a whole number of seconds"),
        ("[Timer]\nOnUnitActiveSec=0\n", SERVICE, "not a whole number of seconds"),
        ("[Timer]\nOnUnitActiveSec=soon\n", SERVICE, "not a length of time"),
        ("[Timer]\nOnCalendar=2027-*-1\nOnCalendar=daily\n", SERVICE, "different years"),
    ],
)
def test_what_cannot_be_carried_over_is_left_out(timer: str, service: str, told: str) -> None:
    done = read(timer, service)
    assert not done.found
    assert told in str(done.left[0])


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.timer": ""}, "a.timer: it is masked"),
        ({"a.service": ""}, "a.timer: a.service is masked"),
        ({"a.timer": "", "a.timer.d/x.conf": "[Timer]\nOnCalendar=daily\n"}, "it is masked"),
    ],
)
def test_a_unit_that_is_masked_is_left_out_although_another_directory_has_it(
    files: dict[str, str], told: str
) -> None:
    vendor = {"lib/a.timer": "[Timer]\nOnCalendar=daily\n", "lib/a.service": SERVICE}
    done = read_files({**{f"etc/{path}": text for path, text in files.items()}, **vendor})
    assert not done.found
    (left,) = done.left
    assert told in str(left)


def test_an_instance_of_a_masked_service_is_left_out() -> None:
    done = read_files({"b@home.timer": "[Timer]\nOnCalendar=daily\n", "b@.service": ""})
    assert "b@home.service is masked" in str(done.left[0])


def test_a_timer_with_very_many_lines_is_left_out_soon() -> None:
    files = {"a.timer": "[Timer]\n" + "OnCalendar=daily\n" * 20_000, "a.service": SERVICE}
    (left,) = read_timers(files, "UTC").left
    assert left.why == "it has 20,000 OnCalendar lines; at most 100"
