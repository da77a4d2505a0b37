"""Crontabs: what of each line is carried over, and what is named instead."""

from __future__ import annotations

import subprocess
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from duebook.imports.crontab import MOST_LINES, read_crontab
from duebook.imports.found import Import, finish

if TYPE_CHECKING:
    from pathlib import Path


def read(text: str, *, tz: str = "UTC", system: bool = False) -> Import:
    return finish(read_crontab(text, "crontab", tz, system), {})


def target(line: str, before: str = "") -> dict[str, Any]:
    (found,) = read(f"{before}\n{line}\n").found
    form: dict[str, Any] = found.form["target"]
    return form


def test_a_line_becomes_a_shell_command_with_its_place_and_zone() -> None:
    (found,) = read("30 2 * * 1-5 pg_dump shop | gzip > /b/shop.gz", tz="Europe/Brussels").found
    assert (found.name, found.place) == ("pg_dump-shop", "crontab:1")
    assert found.form == {
        "trigger": {"cron": "30 2 * * 1-5", "tz": "Europe/Brussels"},
        "target": {"shell": "pg_dump shop | gzip > /b/shop.gz"},
    }


def test_lines_after_a_setting_have_it() -> None:
    text = (
        'CRON_TZ=Asia/Kathmandu\nPATH="/opt/bin:/bin"\n0 1 * * * a\nCRON_TZ = UTC\nX=\n@daily b\n'
    )
    first, second = read(text).found
    assert first.form["trigger"] == {"cron": "0 1 * * *", "tz": "Asia/Kathmandu"}
    assert first.form["target"]["env"] == {"PATH": "/opt/bin:/bin"}
    assert second.form["trigger"] == {"cron": "@daily"}
    assert second.form["target"]["env"] == {"PATH": "/opt/bin:/bin", "X": ""}


def test_home_is_where_it_starts() -> None:
    assert target("@daily ls", "HOME=/srv/app")["cwd"] == "/srv/app"


def test_another_shell_runs_the_text() -> None:
    assert target("@daily a | b", "SHELL=/bin/bash") == {"command": ["/bin/bash", "-c", "a | b"]}


def test_a_text_that_looks_like_a_template_stays_as_it_is() -> None:
    kept = target("@daily docker ps --format '{{.Names}}'", "SHELL=/bin/bash")
    assert kept == {"shell": """exec /bin/bash -c 'docker ps --format '"'"'{{.Names}}'"'"''"""}


def test_a_percent_sign_begins_the_input() -> None:
    text = target(r"0 12 * * 1 mail -s 50\% staff%Hello%Bye")["shell"]
    assert text == "exec <<'END_OF_INPUT'\nHello\nBye\nEND_OF_INPUT\nmail -s 50% staff"


def test_a_backslash_before_another_does_not_keep_a_percent_sign() -> None:
    text = target(r"@daily cat \\%\\%a\%b")["shell"]
    assert text == "exec <<'END_OF_INPUT'\n\\%a%b\nEND_OF_INPUT\ncat \\\\"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("@daily (cat; echo END) > out%a%%b", "a\n\nb\nEND\n"),  # dash forgets > within { }
        ("@daily cat > out%", ""),
        ("@daily cat > out%a%", "a\n"),
        ("@daily cat > out # a comment%a", "a\n"),
        ("@daily cat <<X > out%inner%X", ""),
        (r"@daily cat > out%50 \% of it%'$HOME'", "50 % of it\n'$HOME'\n"),
    ],
)
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_command_with_input_does_what_it_did_under_cron(
    line: str, wanted: str, shell: str, tmp_path: Path
) -> None:
    text = target(line, f"SHELL={shell}")["shell"]
    argv = ["/bin/sh", "-c", text]
    subprocess.run(argv, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)  # noqa: S603
    assert (tmp_path / "out").read_text() == wanted


def test_two_backslashes_are_pointed_out_because_crons_differ() -> None:
    (found,) = read(r"@daily echo a\\b").found
    assert found.form["target"]["shell"] == r"echo a\\b"
    assert any("as in cronie" in note for note in found.notes)
    assert not read(r"@daily echo a\%b").found[0].notes


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (
            "test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }",
            "run-parts-cron.daily",
        ),
        ("if [ -x /usr/sbin/backupninja ]; then /usr/sbin/backupninja; fi", "backupninja"),
        ("command -v sa1 > /dev/null && sa1 60 2", "sa1"),
        ("/usr/bin/test -x /usr/bin/maintd && /usr/bin/maintd -F", "maintd"),
        ("[ -x /bin/foo ]", "foo"),
    ],
)
def test_a_name_is_what_runs_and_not_its_conditions(command: str, name: str) -> None:
    assert read(f"@daily {command}").found[0].name == name


def test_only_newlines_end_a_line() -> None:
    assert target("@daily echo a\u2028b\x0cc\r\n")["shell"] == "echo a\u2028b\x0cc"


def test_the_space_between_fields_and_a_minus_before_them_are_left_out() -> None:
    """cronie does not log a job with a minus."""
    (found,) = read("\t-*/5\t* *  * *\ta").found
    assert found.form["trigger"] == {"cron": "*/5 * * * *"}


def test_an_empty_zone_is_that_of_the_machine() -> None:
    text = "CRON_TZ=Asia/Tokyo\n@daily a\nCRON_TZ=\n@daily b"
    first, second = read(text, tz="Europe/Brussels").found
    zones = [one.form["trigger"]["tz"] for one in (first, second)]
    assert zones == ["Asia/Tokyo", "Europe/Brussels"]


def test_a_user_before_the_command_is_pointed_out() -> None:
    (found,) = read("@daily root /opt/a").found
    assert found.notes == ("its command is root: if that is a user, add --system",)


def test_a_variable_for_commands_is_named_once() -> None:
    done = read("TZ=Asia/Tokyo\n@daily a\n@daily b")
    assert len([note for note in done.notes if note.startswith("TZ is set")]) == 1
    assert not any(one.notes for one in done.found)


def test_the_same_line_many_times_has_names_that_differ() -> None:
    done = read("@daily a\n" * 300)
    assert len({one.name for one in done.found}) == 300


def test_the_user_of_a_system_crontab_is_named() -> None:
    (found,) = read("17 * * * * root cd / && run-parts /etc/cron.hourly", system=True).found
    assert found.form["target"] == {"shell": "cd / && run-parts /etc/cron.hourly"}
    assert found.notes == ("it ran as root; a command runs as the user of the node",)


def test_comments_directly_above_become_the_description() -> None:
    text = "# old\n\n# Dump the shop.\n# Every night.\n# 0 1 * * * /opt/old\n@daily a\n@daily b\n"
    first, second = read(text).found
    assert first.form["description"] == "Dump the shop. Every night."
    assert "description" not in second.form


def test_names_differ_and_stay_when_lines_before_them_change() -> None:
    names = [
        one.name for one in read("@daily /a/rotate\n@hourly /a/rotate\n@hourly /a/rotate").found
    ]
    assert len(set(names)) == 3
    more = [one.name for one in read("0 1 * * * x\n@daily /a/rotate\n@hourly /a/rotate").found]
    assert more[1:] == names[:2]


def test_mail_is_named_once() -> None:
    notes = read("MAILTO=ops@example.com\n@daily a\n@daily b\nMAILTO=\n@daily c").notes
    assert [note for note in notes if "ops@example.com is not carried over" in note]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("@reboot a", "@reboot: starting with the machine"),
        ("61 * * * * a", "minute 61 is out of range 0-59"),
        ("0 0 31 2 * a", "never fires"),
        ("0 0 * * *", "no command after the five fields"),
        ("@daily", "no command"),
        ("hello", "neither a job with five fields nor NAME=VALUE"),
        ("@fortnightly a", "@fortnightly"),
        ("@daily %input", "no command before the %"),
        ("@daily a {{ secret.X }}", "shell would read a secret of Duebook"),
    ],
)
def test_what_cannot_be_carried_over_is_left_out_by_line(line: str, told: str) -> None:
    done = read(f"@daily ok\n{line}\n")
    (left,) = done.left
    assert (left.place, len(done.found)) == ("crontab:2", 1)
    assert told in str(left)


def test_an_unknown_zone_is_named() -> None:
    (left,) = read("CRON_TZ=Mars/Base\n@daily a").left
    assert "Mars/Base" in left.why


def test_a_random_value_is_hashed() -> None:
    (found,) = read("0~30 3 * * * a").found
    assert found.form["trigger"] == {"cron": "H(0-30) 3 * * *"}
    assert "random" in found.notes[0]


def test_a_secret_in_the_environment_is_named() -> None:
    (found,) = read("API_KEY=1234\n@daily a").found
    assert found.notes == (
        "the file contains the value of API_KEY; to keep it out, use {{ secret.NAME }}",
    )


def test_a_variable_that_names_a_secret_of_duebook_is_refused() -> None:
    """What was plain text there must not read a secret here."""
    (left,) = read("A={{ secret.DB }}\n@daily env").left
    assert "A would read a secret of Duebook" in left.why
    assert target("@daily env", "A={{.Names}}")["env"] == {"A": "{{.Names}}"}


def test_a_huge_file_is_read_up_to_a_limit() -> None:
    done = read_crontab("# x\n" * (MOST_LINES + 5), "crontab", "UTC", system=False)
    assert [left.place for left in done.left] == [f"crontab:{MOST_LINES + 1}"]


def test_a_very_long_line_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        assert read("@daily echo " + "x" * 2_000_000 + "\n").left
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
