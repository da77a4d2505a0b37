"""Reads systemd timers and the services that they start; pure."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import shorten
from duebook.imports.calendar_specs import read_calendar
from duebook.imports.found import Found, Import, NotCarried, name_of
from duebook.imports.targets import command_target, shell_target
from duebook.imports.unit_words import split_commands, split_words
from duebook.imports.units import Unit, is_true, read_span, read_unit
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duebook.imports.unit_words import Command
    from duebook.imports.units import Setting

__all__ = ["read_timers"]

MOST_CALENDARS: Final = 100
_BOOT: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_REPEATS: Final = ("OnUnitActiveSec", "OnUnitInactiveSec")
_TIMER_KEYS: Final = frozenset(
    {*_BOOT, *_REPEATS, "OnCalendar", "RandomizedDelaySec", "Persistent", "Unit"}
)
_UNIT_KEYS: Final = frozenset({"Description", "Documentation"})
_SERVICE_KEYS: Final = frozenset(
    {"ExecStart", "ExecStartPre", "Environment", "WorkingDirectory"}
    | {"TimeoutSec", "TimeoutStartSec"}
    | {"RuntimeMaxSec", "Type", "RemainAfterExit", "StandardOutput", "StandardError"}
)
_REMEDIES: Final = {
    "AccuracySec": "Duebook starts a run at its second, not within a window",
    "EnvironmentFile": "put its variables into `env`, or use secrets",
    "User": "a command runs as the user of the node",
    "Group": "a command runs with the group of the node",
    "Restart": "use `retry`",
    "RestartSec": "use `retry`",
    "OnFailure": "use duebook alert add",
    "ExecStartPost": "add it to the command",
    "ExecStopPost": "add it to the command",
    "WakeSystem": "a node does not wake the machine",
}
_PRIVILEGED: Final = frozenset("+!|")
_VARIABLE: Final = re.compile(r"\$\$|\$\{(\w+)\}")
_LIST_VARIABLE: Final = re.compile(r"\$(?![{$])(.+)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DROP_IN: Final = re.compile(r"([^/]+\.(?:timer|service))\.d/[^/]+\.conf$")


def read_timers(files: Mapping[str, str], tz: str) -> Import:
    """The timers among unit files, by path; `tz` is the zone of the machine."""
    units, done = _units(files), Import()
    for name, unit in units.items():
        if not name.endswith(".timer") or (_is_template(name) and _has_instance(name, units)):
            continue
        place = next((one.place for found in unit.sections.values() for one in found), name)
        try:
            done.found.append(_timer(unit, units, tz, place))
        except NotCarried as error:
            done.leave(place, name, error)
    return done


def _units(files: Mapping[str, str]) -> dict[str, Unit]:
    """Each unit by name, with its drop-ins after its own file or that of its template; of several
    files with the same name, the first counts."""
    own: dict[str, list[tuple[str, str]]] = {}
    added: dict[str, list[tuple[str, str]]] = {}
    for path, text in files.items():
        if match := _DROP_IN.search(path):
            added.setdefault(match[1], []).append((path, text))
        else:
            own.setdefault(path.rpartition("/")[2], [(path, text)])
    found = {}
    for name in own | added:
        template = _template_of(name)
        first = own.get(name) or own.get(template, [])
        parts = [*first, *added.get(template, [])]
        unit = read_unit(name, [*parts, *(added.get(name, []) if name != template else [])])
        unit.is_masked = any(not text for _, text in first)
        found[name] = unit
    return found


def _template_of(name: str) -> str:
    """backup@.service for backup@home.service; for other units, their own name."""
    stem, _, kind = name.rpartition(".")
    prefix, at, _ = stem.partition("@")
    return f"{prefix}@.{kind}" if at else name


def _is_template(name: str) -> bool:
    return name.rpartition(".")[0].endswith("@")


def _has_instance(template: str, units: Mapping[str, Unit]) -> bool:
    return any(_template_of(name) == template != name for name in units)


def _timer(timer: Unit, units: Mapping[str, Unit], tz: str, place: str) -> Found:
    stem = timer.name.removesuffix(".timer")
    if timer.is_masked:
        raise NotCarried("it is masked, so systemd never starts it")
    if _is_template(timer.name):
        raise NotCarried("it is a template; name its instances, such as backup@home.timer")
    notes = [*_unknown(timer, "Unit", _UNIT_KEYS), *_unknown(timer, "Timer", _TIMER_KEYS)]
    form = _when(timer, tz, notes)
    wanted = timer.last("Timer", "Unit")
    service_name = timer.expanded(wanted.value) if wanted else f"{stem}.service"
    service = units.get(service_name) or _instance(service_name, units)
    if service is None:
        raise NotCarried(f"{shorten(service_name)} is missing; give it too")
    if service.is_masked:
        raise NotCarried(f"{shorten(service_name)} is masked, so systemd never starts it")
    form["target"] = _target(service, notes)
    form |= _limits(service)
    for unit in (timer, service):
        about = unit.last("Unit", "Description")
        if about and "description" not in form:
            form["description"] = unit.expanded(about.value)
    return Found(name_of(stem), form, place, tuple(notes))


def _instance(name: str, units: Mapping[str, Unit]) -> Unit | None:
    """Create backup@home.service from its template, backup@.service."""
    template = units.get(_template_of(name))
    return Unit(name, template.sections, template.is_masked) if template else None


def _unknown(unit: Unit, section: str, known: frozenset[str]) -> Iterable[str]:
    return (_told(one) for one in unit.keys(section) if one.key not in known)


def _told(one: Setting) -> str:
    remedy = _REMEDIES.get(one.key)
    told = f"{one.place}: {one.key}={shorten(one.value, 80)} is not carried over"
    return f"{told}; {remedy}" if remedy else told


def _when(timer: Unit, tz: str, notes: list[str]) -> dict[str, Any]:
    """The trigger and the policies of a timer."""
    calendars = timer.all("Timer", "OnCalendar")
    if len(calendars) > MOST_CALENDARS:
        raise NotCarried(f"it has {len(calendars):,} OnCalendar lines; at most {MOST_CALENDARS}")
    specs = [read_calendar(one.value, tz) for one in calendars]
    triggers = [spec.trigger for spec in specs]
    bounds = {tuple(sorted(spec.bounds.items())) for spec in specs}
    if len(bounds) > 1:
        raise NotCarried("its OnCalendar lines name different years; split the timer")
    repeats = [one for key in _REPEATS for one in timer.all("Timer", key)]
    for one in repeats:
        triggers.append({"every": _period(one)})
        if one.key == "OnUnitInactiveSec":
            notes.append(f"{one.place}: {one.key} counts from the end of a run; `every` does not")
    boots = [one for key in _BOOT for one in timer.all("Timer", key)]
    if not triggers:
        if not boots:
            raise NotCarried("it has no times, such as OnCalendar=")
        keys = ", ".join(one.key for one in boots)
        raise NotCarried(f"it has only {keys}, and Duebook does not know when machines start")
    notes += [_told(one) for one in boots]
    form: dict[str, Any] = {"trigger": triggers[0] if len(triggers) == 1 else triggers}
    form |= dict(next(iter(bounds), ()))
    delay = timer.last("Timer", "RandomizedDelaySec")
    if delay and (length := _rounded_up(delay)):
        form["jitter"] = length
    if not is_true(timer.last("Timer", "Persistent")):
        form["catchup"] = "skip"
    return form


def _period(one: Setting) -> str:
    length = read_span(one)
    if not length or length.microseconds:
        raise NotCarried(f"{one.key}={shorten(one.value)} is not a whole number of seconds")
    return format_duration(length)


def _rounded_up(one: Setting) -> str | None:
    """Rounded up to whole seconds; None for zero."""
    seconds = math.ceil(read_span(one).total_seconds())
    return format_duration(timedelta(seconds=seconds)) if seconds else None


def _limits(service: Unit) -> dict[str, Any]:
    kind = service.last("Service", "Type")
    is_oneshot = kind is not None and kind.value == "oneshot"
    keys = ("TimeoutStartSec", "TimeoutSec") if is_oneshot else ("RuntimeMaxSec",)
    found = [one for one in service.keys("Service") if one.key in keys and one.value]
    if not found or found[-1].value == "infinity":
        return {}
    length = _rounded_up(found[-1])
    return {"timeout": length} if length else {}


def _target(service: Unit, notes: list[str]) -> dict[str, Any]:
    notes += _unknown(service, "Unit", _UNIT_KEYS)
    notes += _unknown(service, "Service", _SERVICE_KEYS)
    if not service.all("Service", "ExecStart"):
        raise NotCarried(f"{service.name} has no ExecStart")
    commands = [
        command
        for key in ("ExecStartPre", "ExecStart")
        for one in service.all("Service", key)
        for command in _commands(one, service, notes)
    ]
    env, cwd = _environment(service), _directory(service, notes)
    first, *others = commands
    if not others and "-" not in first.signs and not _has_variables(first):
        return command_target(first.argv, env, cwd)
    lines = " &&\n".join(map(_shell_line, commands))
    splits = any(map(_splits, commands))
    return shell_target(f"set -f\n{lines}" if splits else lines, env, cwd)


def _commands(one: Setting, service: Unit, notes: list[str]) -> list[Command]:
    try:
        read = split_commands(one.value)
    except ValueError as error:
        raise NotCarried(f"{one.key} cannot be read: {error}") from None
    found = [replace(each, argv=[service.expanded(word) for word in each.argv]) for each in read]
    for command in found:
        if signs := "".join(sign for sign in command.signs if sign in _PRIVILEGED):
            told = f"{one.place}: {signs} before {shorten(command.argv[0])} is not carried over"
            notes.append(f"{told}; {_REMEDIES['User']}")
    return found


def _has_variables(command: Command) -> bool:
    return ":" not in command.signs and any("$" in word for word in command.argv)


def _splits(command: Command) -> bool:
    """Whether a variable is split into words, which a shell would expand as file patterns."""
    return ":" not in command.signs and any(map(_LIST_VARIABLE.fullmatch, command.argv))


def _shell_line(command: Command) -> str:
    quote = shlex.quote if ":" in command.signs else _shell_word
    line = " ".join(map(quote, command.argv))
    return f"{{ {line} || true; }}" if "-" in command.signs else line


def _shell_word(word: str) -> str:
    """Quote a word for a shell, except variables that systemd replaces, too: `${NAME}` anywhere,
    and `$NAME` as a separate word; `$$` is a dollar sign."""
    if match := _LIST_VARIABLE.fullmatch(word):
        if not _NAME.fullmatch(match[1]):
            raise NotCarried(f"{shorten(word)} is not the name of a variable")
        return word
    parts, place = [], 0
    for match in _VARIABLE.finditer(word):
        text = word[place : match.start()] + ("" if match[1] else "$")
        parts += [shlex.quote(text)] if text else []
        parts += [f'"${{{match[1]}}}"'] if match[1] else []
        place = match.end()
    parts += [shlex.quote(word[place:])] if word[place:] else []
    return "".join(parts) or "''"


def _environment(service: Unit) -> dict[str, str]:
    env: dict[str, str] = {}
    for one in service.all("Service", "Environment"):
        try:
            words = [service.expanded(word) for word in split_words(one.value)]
        except ValueError as error:
            raise NotCarried(f"Environment cannot be read: {error}") from None
        env |= {name: value for name, sign, value in (w.partition("=") for w in words) if sign}
    return env


def _directory(service: Unit, notes: list[str]) -> str | None:
    found = service.last("Service", "WorkingDirectory")
    if found is None:
        return None
    if found.value.lstrip("-") == "~":
        notes.append(_told(found))
        return None
    return service.expanded(found.value.lstrip("-"))
