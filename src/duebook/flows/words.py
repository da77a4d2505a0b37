"""The keys of a flow file: which there are, which are refused by name, and what each means.

Each may be written in snake_case or camelCase. docs/dagu.md shows these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duebook.model.schedule import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["POLICY_KEYS", "TABLES", "Table", "Word", "camel"]


@dataclass(frozen=True, slots=True)
class Word:
    """A key; `instead` says what to do where it is not supported."""

    name: str
    means: str = ""
    same_as: str | None = None
    instead: str | None = None

    @property
    def supported(self) -> bool:
        return self.instead is None


class Table:
    """The keys of one kind of mapping, by both of their spellings."""

    def __init__(self, title: str, words: Iterable[Word]) -> None:
        self.title = title
        self.words = {word.name: word for word in words}
        self._spellings = {camel(name): name for name in self.words} | {n: n for n in self.words}

    def find(self, key: str) -> Word | None:
        name = self._spellings.get(key)
        return None if name is None else self.words[name]

    def likely(self, key: str) -> list[str]:
        """What may have been meant, in the spelling of `key`."""
        names = [word.name for word in self.words.values() if word.supported]
        return names if key.islower() else [*map(camel, names), *names]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _refused(instead: str, *names: str) -> list[Word]:
    return [Word(name, instead=instead) for name in names]


_MAIL: Final = "send mail from a step or a handler"
_LOGS: Final = "the output of a step is kept with its run"
_NO_CONTAINERS: Final = "run the container's own command, such as docker run"
_REMOTE: Final = "run a program that does it, such as ssh or psql"
_SHELL_ARGS: Final = "put them after the shell, such as `shell: bash -x`"
_MODELS: Final = "call a program or task that does it"

POLICY_KEYS: Final = {f.flow.key or f.key: f for f in POLICIES.values() if f.flow}
"""The fields of a definition that a flow file says, by their keys there."""

FLOW: Final = Table(
    "A flow",
    [
        Word("name", "its name; the default is the file name"),
        *(Word(key, known.flow.means) for key, known in POLICY_KEYS.items() if known.flow),
        Word("tags", same_as="labels", means="labels"),
        Word("group", "the label `group`"),
        Word("schedule", "when it starts: cron, a list, a trigger, or start/stop/restart"),
        Word("tz", "the time zone of its schedule; the default is UTC"),
        Word("restart_wait_sec", "seconds between the stop and the start of a restart"),
        Word("max_active_steps", "the most steps of one run at the same time"),
        Word("worker_selector", "labels that a worker must have, unless a step has its own"),
        Word("delay_sec", "seconds before the first step"),
        Word("type", "chain: in order; graph: by depends only"),
        Word("params", "values to pass when it starts, with their defaults"),
        Word("env", "variables for all steps: a mapping or a list"),
        Word("working_dir", "the directory of all steps"),
        Word("shell", "the shell of all steps"),
        Word(
            "max_output_size",
            "the most bytes that a step can print into its `output`: 1 MiB by default, up to 16 "
            "MiB",
        ),
        Word("preconditions", "conditions that must be met, or the run is cancelled"),
        Word("precondition", same_as="preconditions", means="preconditions"),
        Word("steps", "a list or a mapping of steps"),
        Word("handler_on", "steps for init, success, failure, abort (or cancel) and exit"),
        *_refused(_MAIL, "mail_on", "error_mail", "info_mail", "wait_mail", "smtp"),
        *_refused(_MAIL, "mail_accounts"),
        *_refused(_LOGS, "log_dir", "log_output", "artifacts"),
        *_refused(
            "all runs are kept for the same time", "hist_retention_days", "hist_retention_runs"
        ),
        *_refused("a run has 5 seconds to stop before it is killed", "max_clean_up_time_sec"),
        *_refused("set the variables in env, or pass them to the node", "dotenv", "secrets"),
        *_refused(_NO_CONTAINERS, "container", "registry_auths", "kubernetes"),
        *_refused(_REMOTE, "ssh", "redis", "s3"),
        *_refused("write them in each step", "defaults", "consts", "step_types", "actions"),
        *_refused("put retry_policy on steps", "retry_policy"),
        *_refused("use schedule with restart", "restart_policy"),
        *_refused("traces are not supported", "otel"),
        *_refused("params can always be passed", "run_config"),
        *_refused("start flows over REST", "webhook"),
        *_refused("limit the resources of the worker when you start it", "resources"),
        *_refused("install them on the workers", "tools"),
        *_refused(_SHELL_ARGS, "shell_args"),
        *_refused(_MODELS, "llm", "harness", "harnesses", "tasks"),
    ],
)

STEP: Final = Table(
    "A step",
    [
        Word("name", "its name in the flow; the default is step-1, step-2 …"),
        Word("id", "a second name, for depends and references"),
        Word("description", "a description for readers"),
        Word("run", "a shell command, or a list of them that run in order"),
        Word("command", "a shell command, or a list of a program and its arguments"),
        Word(
            "script", "a script for the shell, for the interpreter in its #! line, or for `command`"
        ),
        Word("shell", "the shell of command and script"),
        Word("exec", "a program without a shell: command and args"),
        Word("task", "a Python function that workers know"),
        Word("payload", "the payload of the task"),
        Word("http", "a request: url, method, headers, json, body, expect"),
        Word("event", "an event to publish: topic, type, key, data"),
        Word("call", "another flow"),
        Word("action", "dag.run, which runs another flow: dag and params in `with`"),
        Word("params", "params for the flow of `call`"),
        Word("executor", "type http with its config; not needed for command and shell"),
        Word("type", "same as executor"),
        Word("config", "options for `type: http`, `run` or `action`"),
        Word("with", same_as="config", means="config"),
        Word("depends", "steps that must succeed first"),
        Word("needs", same_as="depends", means="depends"),
        Word("env", "more variables; they override those of the flow"),
        Word("working_dir", "its working directory"),
        Word("dir", same_as="working_dir", means="working_dir"),
        Word("output", "the variable that stores its output"),
        Word("timeout_sec", "seconds for an attempt"),
        Word("retry_policy", "limit, interval_sec, backoff, max_interval_sec, exit_code"),
        Word("retries", "attempts after the first, 10 s apart and then longer each time"),
        Word("continue_on", "failure, skipped, exit_code, output, mark_success"),
        Word("preconditions", "conditions that must be met, or it is skipped"),
        Word("precondition", same_as="preconditions", means="preconditions"),
        Word("worker_selector", "labels that a worker must have"),
        Word("labels", same_as="worker_selector", means="worker_selector"),
        Word("signal_on_stop", "SIGTERM, the only signal that is sent"),
        *_refused("loop in a script, or use retry_policy", "repeat_policy"),
        *_refused("write a step for each, or loop in a script", "parallel", "foreach"),
        *_refused(_MAIL, "mail_on_error"),
        *_refused(_LOGS, "stdout", "stderr", "log_output"),
        *_refused(_NO_CONTAINERS, "container"),
        *_refused("install them on the workers", "shell_packages"),
        *_refused(_SHELL_ARGS, "shell_args"),
        *_refused("use command, http, task or call", "value", "routes", "noop"),
        *_refused("approvals are not supported", "approval"),
        *_refused("check it in the next step", "output_schema"),
        *_refused("store what it prints, with output", "outputs"),
        *_refused("let the command read its files", "inputs"),
        *_refused(_MODELS, "llm", "messages", "agent", "tools"),
    ],
)

RETRY: Final = Table(
    "`retry_policy`",
    [
        Word("limit", "attempts after the first"),
        Word("interval_sec", "seconds between them"),
        Word("backoff", "true, or the factor by which the interval grows each time"),
        Word("max_interval_sec", "the longest interval"),
        Word("exit_code", "retry only after these exit codes"),
        Word("exit_codes", same_as="exit_code", means="exit_code"),
    ],
)

CONTINUE: Final = Table(
    "`continue_on`",
    [
        Word("failure", "after any failure"),
        Word("failed", same_as="failure", means="failure"),
        Word("skipped", "after it was skipped"),
        Word("exit_code", "after these exit codes"),
        Word("exit_codes", same_as="exit_code", means="exit_code"),
        Word(
            "output",
            "when its output has a line with one of these strings, or matching a pattern after re:",
        ),
        Word("mark_success", "count such a failure as a success"),
    ],
)

CONDITION: Final = Table(
    "`preconditions`",
    [
        Word("condition", "a value such as ${NAME}, or a command"),
        Word("command", same_as="condition", means="condition"),
        Word("expected", "the expected value, or a pattern after re:"),
        Word("negate", "the condition must not be met"),
    ],
)

SCHEDULE: Final = Table(
    "`schedule`",
    [
        Word("start", "when it starts"),
        Word("stop", "when it is stopped, if it is running"),
        Word("restart", "when it is stopped and started again"),
    ],
)

HANDLERS: Final = Table(
    "`handler_on`",
    [
        Word("init", "before the steps; if it fails, no step runs"),
        Word("success", "after every step succeeded"),
        Word("failure", "after a failure"),
        Word("abort", "after it was stopped or cancelled"),
        Word("cancel", same_as="abort", means="abort"),
        Word("exit", "at the end, always"),
        *_refused("approvals are not supported", "wait"),
    ],
)

PARAM: Final = Table(
    "An item of `params` that has a `name`",
    [
        Word("name", "its name"),
        Word("default", "its value if none is passed"),
        Word("required", "true: a value must be passed"),
        Word("type", "string, integer, number or boolean"),
        Word("enum", "the allowed values"),
        Word("description", "a description for readers"),
        *_refused("check it in a step", "pattern", "minimum", "maximum", "min_length"),
        *_refused("check it in a step", "max_length", "eval"),
    ],
)

HTTP: Final = Table(
    "`config` of type http",
    [
        Word("url", "the address of the request"),
        Word("method", "the default is GET"),
        Word("headers", "names and values"),
        Word("body", "the body to send"),
        Word("timeout", "seconds"),
        *_refused("put it in the url", "query"),
        *_refused("parse it in the next step", "json", "format"),
        *_refused("the response is kept with the run", "silent", "debug"),
        *_refused("certificates are always verified", "skip_tls_verify"),
    ],
)

EXEC: Final = Table("`exec`", [Word("command", "the program"), Word("args", "its arguments")])

RUN: Final = Table(
    "`with` of `run`",
    [
        Word("shell", "the shell of the command"),
        *_refused(_SHELL_ARGS, "shell_args"),
        *_refused("install them on the workers", "shell_packages"),
    ],
)

CALL: Final = Table(
    "`with` of `action: dag.run`",
    [
        Word("dag", "the flow to run"),
        Word("params", "its params"),
    ],
)

OUTPUT: Final = Table(
    "`output` as a mapping",
    [
        Word("name", "the variable"),
        *_refused("outputs are not written to a file", "key", "omit"),
        *_refused("parse it in the next step", "from", "decode", "select", "path"),
    ],
)

TABLES: Final = (
    *(FLOW, STEP, RETRY, CONTINUE, CONDITION),
    *(SCHEDULE, HANDLERS, PARAM, HTTP, EXEC, RUN, CALL, OUTPUT),
)
