"""Reads CronJobs from Kubernetes manifests; pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTrigger, quoted, shorten
from duebook.flows.parse import Node, parse, plain
from duebook.imports.found import BROKEN, Found, Import, NotCarried, name_of
from duebook.imports.targets import command_target
from duebook.timetext import format_duration
from duebook.triggers import load_trigger

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["read_manifests"]

MOST_BYTES: Final = 16_000_000
MOST_VALUES: Final = 500_000
MOST_DOCUMENTS: Final = 10_000
DEFAULT_BACKOFF_LIMIT: Final = 6
_OVERLAPS: Final = {"Allow": "allow", "Forbid": "latest", "Replace": "cancel"}
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_STAR: Final = re.compile(r"[*?](?:/0*1)?")
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_CRON_KEYS: Final = frozenset(
    {"schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend"}
    | {"jobTemplate", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"}
)
_JOB_KEYS: Final = frozenset({"backoffLimit", "activeDeadlineSeconds", "template"})
_POD_KEYS: Final = frozenset(
    {"containers", "restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}
    | {"dnsPolicy", "schedulerName", "enableServiceLinks"}
)
_CONTAINER_KEYS: Final = frozenset(
    {"name", "command", "args", "env", "workingDir", "imagePullPolicy"}
    | {"terminationMessagePath", "terminationMessagePolicy"}
)


def read_manifests(text: str, file: str) -> Import:
    """The CronJobs among documents and lists; raises Refused for invalid YAML."""
    done, others = Import(), []
    for document in parse(text, file, MOST_BYTES, MOST_VALUES, MOST_DOCUMENTS):
        for item in _items(document):
            kind = _text_of(item, "kind") or _kind_within(document)
            if kind != "CronJob":
                others.append(kind or "a document without a kind")
                continue
            metadata = plain(item).get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            title = f"CronJob {shorten(name)}" if name else "a CronJob without a name"
            try:
                done.found.append(_cron_job(item, file))
            except NotCarried as error:
                done.leave(f"{file}:{item.line}", title, error)
            except BROKEN as error:
                told = f"it cannot be read: {shorten(str(error), 100)}"
                done.leave(f"{file}:{item.line}", title, told)
    if others:
        kinds = shorten(", ".join(sorted(set(others))), 200)
        done.notes.append(f"{file}: passed over what is not a CronJob: {kinds}")
    return done


def _items(document: Node) -> Iterator[Node]:
    """A document, or the items of a List; empty documents are skipped."""
    if not isinstance(document.value, dict):
        if document.value is not None:
            yield document
    elif (_text_of(document, "kind") or "").endswith("List"):
        items = document.value.get("items")
        if isinstance(items, Node) and isinstance(items.value, list):
            yield from items.value
    else:
        yield document


def _kind_within(document: Node) -> str | None:
    """The kind of a list's items: those of a CronJobList need not name it."""
    kind = _text_of(document, "kind") or ""
    return kind.removesuffix("List") or None if kind.endswith("List") else None


def _text_of(node: Node, key: str) -> str | None:
    found = node.value.get(key) if isinstance(node.value, dict) else None
    return found.value if isinstance(found, Node) and isinstance(found.value, str) else None


class _Section:
    """A mapping of a manifest, with the lines of its keys."""

    def __init__(self, node: Node | None, path: str, file: str) -> None:
        self.node = node
        self.path = path
        self.file = file
        found = None if node is None else plain(node)
        self.values: dict[str, Any] = found if isinstance(found, dict) else {}

    def at(self, key: str) -> _Section:
        inner = self.node.value.get(key) if self.values and self.node else None
        return _Section(inner, f"{self.path}.{key}".lstrip("."), self.file)

    def notes(self, known: frozenset[str], remedy: str = "") -> Iterator[str]:
        """What is not carried over, by line."""
        for key, value in self.values.items():
            if key not in known and value not in (None, [], {}):
                assert self.node is not None  # noqa: S101 - it has values
                line = self.node.keys[key].line
                told = f"{self.file}:{line}: {self.path}.{key} is not carried over"
                yield f"{told}{remedy}"

    def number(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise NotCarried(f"{key} {quoted(value)} is not a whole number")
        return value

    def truth(self, key: str) -> bool:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise NotCarried(f"{key} {quoted(value)} is not true or false")

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise NotCarried(f"{key} {quoted(value)} is not a string")


def _cron_job(item: Node, file: str) -> Found:
    whole = _Section(item, "", file)
    metadata, spec = whole.at("metadata"), whole.at("spec")
    job = spec.at("jobTemplate").at("spec")
    pod = job.at("template").at("spec")
    notes = [*spec.notes(_CRON_KEYS), *job.notes(_JOB_KEYS)]
    form: dict[str, Any] = {"trigger": _trigger(spec, notes), "target": _target(pod, notes)}
    form |= _policies(spec, job, pod, notes)
    labels = metadata.values.get("labels")
    namespace = metadata.text("namespace")
    kept = {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}
    if namespace:
        kept["namespace"] = namespace
    if kept:
        form["labels"] = kept
    name = metadata.text("name") or ""
    return Found(name_of(name), form, f"{file}:{item.line}", tuple(notes))


def _trigger(spec: _Section, notes: list[str]) -> Any:
    text, tz = spec.text("schedule") or "", spec.text("timeZone")
    if match := _ZONE.fullmatch(text.strip()):
        tz, text = tz or match[1], match[2]
    if tz is None:
        notes.append("it has no timeZone: the controller's zone, usually UTC, is taken as UTC")
    zone = {} if tz in (None, "UTC", "Etc/UTC") else {"tz": tz}
    expressions = _either_day(text)
    triggers = [{"cron": expression, **zone} for expression in expressions]
    if text.startswith("@every"):
        triggers = [{"cron": text}]
    for trigger in triggers:
        try:
            load_trigger(trigger, key="job")
        except InvalidTrigger as error:
            raise NotCarried(f"schedule: {error}") from None
    return triggers[0] if len(triggers) == 1 else triggers


def _either_day(text: str) -> list[str]:
    """In Kubernetes a day need only match one of the two day fields, even if one of them is `*/2`.
    If a field contains a plain `*`, only the other field counts."""
    fields = text.split()
    if text.startswith("@"):
        return [text]
    if len(fields) != 5:
        raise NotCarried(f"schedule: expected 5 fields, but found {len(fields)}")
    for place in (2, 4):
        if any(map(_STAR.fullmatch, fields[place].split(","))):
            fields[place] = "*"
    minute, hour, day, month, weekday = fields
    if "*" in (day, weekday) or (day[0] not in "*?" and weekday[0] not in "*?"):
        return [" ".join(fields)]
    return [f"{minute} {hour} {day} {month} *", f"{minute} {hour} * {month} {weekday}"]


def _policies(spec: _Section, job: _Section, pod: _Section, notes: list[str]) -> dict[str, Any]:
    form: dict[str, Any] = {}
    policy = spec.text("concurrencyPolicy") or "Allow"
    if policy not in _OVERLAPS:
        raise NotCarried(
            f'concurrencyPolicy "{shorten(policy)}" is not one of Allow, Forbid, Replace'
        )
    form["overlap"] = _OVERLAPS[policy]
    deadline = spec.number("startingDeadlineSeconds")
    if deadline is not None:
        form |= {"grace": _seconds(deadline), "catchup": "skip"}
    failures = job.number("backoffLimit")
    attempts = (DEFAULT_BACKOFF_LIMIT if failures is None else failures) + 1
    if attempts > 1:
        form["retry"] = {"attempts": attempts, "delay": "10s", "max_delay": "6m"}
    limit = pod.number("activeDeadlineSeconds")
    whole = job.number("activeDeadlineSeconds")
    if whole is not None and limit is None:
        limit = whole
        if attempts > 1:
            notes.append("activeDeadlineSeconds limits all attempts together; `timeout` each one")
    if limit:
        form["timeout"] = _seconds(limit)
    if spec.truth("suspend"):
        form["enabled"] = False
        notes.append("suspend: it is created paused; duebook resume starts it")
    return form


def _seconds(number: int) -> str:
    return format_duration(timedelta(seconds=number))


def _target(pod: _Section, notes: list[str]) -> dict[str, Any]:
    containers = pod.values.get("containers")
    if not isinstance(containers, list) or not containers:
        raise NotCarried("its pod has no containers")
    if len(containers) > 1:
        raise NotCarried(f"its pod has {len(containers)} containers; a run is one command")
    assert pod.node is not None  # noqa: S101 - it has values
    inner = pod.node.value["containers"].value[0]
    container = _Section(inner, f"container {shorten(plain(inner).get('name'))}", pod.file)
    command, args = (_texts(container, key) for key in ("command", "args"))
    if not command:
        image = shorten(container.values.get("image"))
        raise NotCarried(f"it has no command: only the image {image} knows what it runs")
    notes += container.notes(_CONTAINER_KEYS, "; the machine of the node must provide it")
    notes += _Section(pod.node, "pod", pod.file).notes(_POD_KEYS)
    env = _environment(container, notes)
    words = [_replaced(word, env) for word in [*command, *args]]
    return command_target(words, env, container.text("workingDir"))


def _texts(container: _Section, key: str) -> list[str]:
    value = container.values.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise NotCarried(f"{key} {shorten(value)} is not a list of strings")
    return value


def _environment(container: _Section, notes: list[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    found = container.values.get("env") or []
    for item in found if isinstance(found, list) else []:
        name = str(item.get("name")) if isinstance(item, dict) else ""
        if not name:
            continue
        if "valueFrom" in item:
            source = shorten(", ".join(item["valueFrom"] or {}))
            notes.append(f"env {shorten(name)} comes from {source}; use {{{{ secret.NAME }}}}")
        else:
            env[name] = _replaced(str(item.get("value") or ""), env)
    return env


def _replaced(text: str, env: dict[str, str]) -> str:
    """Replace `$(NAME)` with its value, as the kubelet does; unknown names stay, `$$` is `$`."""
    return _REFERENCE.sub(
        lambda match: "$" if match[1] is None else env.get(match[1], match[0]), text
    )
