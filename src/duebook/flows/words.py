"""The keys of a flow file: which exist, which are refused by name, and what each means.

Each may be written in snake_case or camelCase. docs/dagu.md shows these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.schedule import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["POLICY_KEYS", "TABLES", "Table", "Word", "camel"]


@dataclass(frozen=True, slots=True)
class Word:
    """A key; `instead` names an alternative if it is not supported."""

    name: str
    means: str = ""
    same_as: str | None = None
    instead: str | None = None

    @property
    def supported(self) -> bool:
        return self.instead is None


class Table:
    """The keys of one kind of mapping, in both of their spellings."""

    def __init__(self, title: str, words: Iterable[Word]) -> None:
        self.title = title
        self.words = {word.name: word for word in words}
        self._spellings = {camel(name): name for name in self.words} | {n: n for n in self.words}
        self._loose = {_loose(name): name for name in self.words}

    def find(self, key: str) -> Word | None:
        """Find by either spelling, in any case: Dagu also reads `skipTLSVerify` and `Exit`."""
        name = self._spellings.get(key) or self._loose.get(_loose(key))
        return None if name is None else self.words[name]

    def likely(self, key: str) -> list[str]:
        """Keys that may have been meant, in the spelling of `key`."""
        names = [word.name for word in self.words.values() if word.supported]
        return names if key.islower() else [*map(camel, names), *names]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _loose(key: str) -> str:
    return key.replace("_", "").lower()


def _refused(instead: str, *names: str) -> list[Word]:
    return [Word(name, instead=instead) for name in names]


_MAIL: Final = "send mail from a step or a handler"
_LOGS: Final = "the output of a step is kept with its run"
_NO_CONTAINERS: Final = "run the program for it, such as kubectl"
_REMOTE: Final = "run a program that does it, such as ssh or psql"
_MODELS: Final = "call a program or task that does it"

POLICY_KEYS: Final = {f.flow.key or f.key: f for f in POLICIES.values() if f.flow}
"""The fields of a definition that a flow file can set, by their keys there."""

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
        Word("shell_args", "options of the shell, a list"),
        Word(
            "max_output_size",
            "the most bytes that a step can print into its `output`: 1 MiB by default, up to 16 "
            "MiB",
        ),
        Word("preconditions", "conditions that must be met, or the run is cancelled"),
        Word("precondition", same_as="preconditions", means="preconditions"),
        Word("steps", "a list or a mapping of steps"),
        Word("retry_policy", "attempts of the whole run, which go on where it failed"),
        Word("handler_on", "steps for init, success, failure, abort (or cancel) and exit"),
        Word("smtp", "the mail server of its mail steps"),
        Word("container", "where all steps run: a container to enter, or one for the run"),
        Word("dotenv", "files with variables; those that do not exist are skipped"),
        Word("secrets", "variables whose values the node has: name, and where Dagu finds it"),
        Word("defaults", "what holds for all steps and handlers that do not say otherwise"),
        Word("hist_retention_days", "days; the same as keep, such as keep: 30d"),
        Word("mail_on", "sends a mail after a success or failure, when the handlers have ended"),
        Word("error_mail", "the mail after a failure"),
        Word("info_mail", "the mail after a success"),
        *_refused(_MAIL, "wait_mail"),
        *_refused(_MAIL, "mail_accounts"),
        Word("log_dir", f"no effect, which flow check says: {_LOGS}"),
        Word("log_output", f"no effect, which flow check says: {_LOGS}"),
        *_refused(_LOGS, "artifacts"),
        *_refused("use keep_last, such as keep_last: 100", "hist_retention_runs"),
        Word(
            "max_clean_up_time_sec",
            "seconds between the stop signal of its commands and SIGKILL; the default is 5",
        ),
        *_refused("sign in on the worker, such as docker login", "registry_auths"),
        *_refused(_NO_CONTAINERS, "kubernetes"),
        *_refused(_REMOTE, "ssh", "redis", "s3"),
        *_refused("write them in each step", "consts", "step_types", "actions"),
        *_refused("use schedule with restart", "restart_policy"),
        Word("otel", "no effect, which flow check says: start the node with --tracing"),
        Word("run_config", "whether params can be given at a start"),
        *_refused("start flows over REST", "webhook"),
        *_refused("limit the resources of the worker when you start it", "resources"),
        *_refused("install them on the workers", "tools"),
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
        Word("command", "a shell command, a list of them, or a program and its arguments"),
        Word(
            "script", "a script for the shell, for the interpreter in its #! line, or for `command`"
        ),
        Word("shell", "the shell of command and script, or another interpreter"),
        Word("shell_args", "options of the shell, a list"),
        Word("exec", "a program without a shell: command and args"),
        Word("task", "a Python function that workers know"),
        Word("payload", "the payload of the task"),
        Word("http", "a request: url, method, headers, json, body, expect"),
        Word("event", "an event to publish: topic, type, key, data"),
        Word("call", "another flow"),
        Word("action", "one of Dagu 2: dag.run, exec, http.request, human.task, jq.filter, …"),
        Word("params", "params for the flow of `call`"),
        Word("executor", "type http, jq or mail with its config; not needed for commands"),
        Word("type", "same as executor"),
        Word("config", "options for a type, `run` or `action`"),
        Word("with", same_as="config", means="config"),
        Word("depends", "steps that must succeed first"),
        Word("needs", same_as="depends", means="depends"),
        Word("env", "more variables; they override those of the flow"),
        Word("working_dir", "its working directory"),
        Word("dir", same_as="working_dir", means="working_dir"),
        Word("output", "the variable that stores its output"),
        Word("outputs", "values that it writes to the file $DAGU_OUTPUT_FILE: name and type"),
        Word("stdout", "a file below the working directory to which what it prints is added"),
        Word("stderr", "the same for its error messages"),
        Word("container", "where it runs: the name of a container, or its image and options"),
        Word("timeout_sec", "seconds for an attempt"),
        Word("retry_policy", "limit, interval_sec, backoff, max_interval_sec, exit_code"),
        Word("retries", "attempts after the first, 10 s apart and then longer each time"),
        Word("continue_on", "failure, skipped, exit_code, output, mark_success"),
        Word("preconditions", "conditions that must be met, or it is skipped"),
        Word("precondition", same_as="preconditions", means="preconditions"),
        Word("worker_selector", "labels that a worker must have"),
        Word("labels", same_as="worker_selector", means="worker_selector"),
        Word("signal_on_stop", "what its command gets first when it is stopped, such as SIGINT"),
        Word("repeat_policy", "execute it again: while or until, with an interval and a limit"),
        Word("parallel", "calls the flow for each of these items: a list, or items and a limit"),
        *_refused("use parallel with call, or loop in a script", "foreach"),
        *_refused(_MAIL, "mail_on_error"),
        *_refused(_LOGS, "log_output"),
        *_refused("install them on the workers", "shell_packages"),
        *_refused("use command, http, task or call", "value", "routes", "noop"),
        *_refused("put a step with action: human.task after it", "approval"),
        *_refused("check it in the next step", "output_schema"),
        *_refused("let the command read its files", "inputs", "stdin"),
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

REPEAT: Final = Table(
    "`repeat_policy`",
    [
        Word("repeat", "while, until, or true, which means while"),
        Word(
            "condition", "while it holds, or until it does: a value such as ${NAME}, or a command"
        ),
        Word("expected", "the expected value, or a pattern after re:"),
        Word("exit_code", "without a condition: while, or until, it exits with one of these"),
        Word("exit_codes", same_as="exit_code", means="exit_code"),
        Word("interval_sec", "seconds between two executions"),
        Word("limit", "the most executions, the first included"),
        Word("backoff", "true, or the factor by which the interval grows each time"),
        Word("max_interval_sec", "the longest interval"),
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

RUN_CONFIG: Final = Table(
    "`run_config`",
    [
        Word("disable_param_edit", "true: no params can be given when it is started"),
        Word("disable_run_id_edit", "no effect: Duebook chooses the ids of runs"),
    ],
)

CONDITION: Final = Table(
    "`preconditions`",
    [
        Word("condition", "a value such as ${NAME}, or a command"),
        Word("eval", "a value that may contain $(command); needs `expected`"),
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
        Word("exit", "at the end, unless the conditions of the flow were not met"),
        *_refused("put a step before the one with action: human.task", "wait"),
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
        Word("query", "parameters to add to the url"),
        Word("silent", "the log always has the response, and the output its status and body"),
        Word("json", "without output; an output always has the status, and the body as json"),
        Word("format", same_as="json", means="json"),
        *_refused("the response is kept with the run", "debug"),
        *_refused("send files with a command, such as curl", "form", "files", "output"),
        Word(
            "skip_tls_verify",
            "only false: certificates are always verified; trust one with SSL_CERT_FILE",
        ),
    ],
)

HUMAN: Final = Table(
    "`with` of `action: human.task`",
    [
        Word("prompt", "what the person is asked"),
        *_refused("ask for the values as params of the flow", "form"),
        *_refused("reject it, and retry the flow from an earlier step", "push_back"),
        *_refused("name in prompt where the person finds them", "artifacts"),
    ],
)

PARALLEL: Final = Table(
    "`parallel` as a mapping",
    [
        Word("items", "a list, or a variable that has one"),
        Word("max_concurrent", "how many run at once; 10 by default"),
    ],
)

EXEC: Final = Table("`exec`", [Word("command", "the program"), Word("args", "its arguments")])

RUN: Final = Table(
    "`with` of `run`",
    [
        Word("shell", "the shell of the command"),
        Word("shell_args", "options of the shell"),
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

JQ: Final = Table(
    "`config` of jq, and `with` of `action: jq.filter`",
    [
        Word("filter", "what jq does; for `type: jq` it is the command, or . without one"),
        Word("data", "the JSON it reads, or a text that is JSON; for `type: jq` the script"),
        Word("input", "a file to read instead"),
        Word("raw", "true: texts are printed without quotes"),
        Word("args", "values by name, which the filter names as $NAME"),
    ],
)

MAIL: Final = Table(
    "`config` of mail, and `with` of `action: mail.send`",
    [
        Word("to", "the address, or a list of them"),
        Word("cc", "who gets a copy"),
        Word("bcc", "who gets a copy that the others cannot see"),
        Word("from", "the sender; the default is that of the setting smtp_url"),
        Word("subject", "the subject"),
        Word("message", "the text; one that begins with <!DOCTYPE html> is HTML"),
        Word("attachments", "files to attach"),
        *_refused("attach files by their names", "attach_logs"),
    ],
)

SMTP: Final = Table(
    "`smtp` of a flow",
    [
        Word("host", "the mail server; without smtp it is that of the setting smtp_url"),
        Word("port", "its port; 465 is TLS from the start, the default is 587 with STARTTLS"),
        Word("username", "who signs in"),
        Word("password", "the password; name a variable or a secret"),
        *_refused("use username and password", "oauth"),
    ],
)

MAIL_ON: Final = Table(
    "`mail_on`",
    [
        Word("failure", "true: send the mail of `error_mail`"),
        Word("success", "true: send the mail of `info_mail`"),
        *_refused(_MAIL, "wait"),
    ],
)

REPORT: Final = Table(
    "`error_mail` and `info_mail`",
    [
        Word("to", "the address, or a list of them"),
        Word("from", "the sender; the default is that of the setting smtp_url"),
        Word("prefix", "how the subject begins"),
        Word("attach_logs", "no effect, which flow check says: the mail has a command for them"),
    ],
)

TEMPLATE: Final = Table(
    "`with` of `action: template.render`",
    [
        Word("template", "a text with {{ .name }} for values of data, and | upper, lower or trim"),
        Word("data", "the values"),
        Word("output", "a file to write; without it the text is printed"),
        *_refused("write the text as template", "template_ref"),
    ],
)

DEFAULTS: Final = Table(
    "`defaults`",
    [
        Word("retry_policy", "unless the step has its own, or retries"),
        Word("continue_on", "unless the step has its own"),
        Word("timeout_sec", "unless the step has its own"),
        Word("signal_on_stop", "unless the step has its own"),
        Word("env", "before the variables of the step"),
        Word("preconditions", "before the conditions of the step"),
        Word("precondition", same_as="preconditions", means="preconditions"),
        *_refused("write it in each step", "repeat_policy", "agent"),
        *_refused(_MAIL, "mail_on_error"),
    ],
)

CONTAINER: Final = Table(
    "`container`, `config` of docker, and `with` of `action: docker.run`",
    [
        Word("image", "the image; it is started with docker or podman"),
        Word("exec", "the running container to enter instead; for docker its options"),
        Word("name", "the name of the container"),
        Word("container_name", same_as="name", means="name"),
        Word("pull_policy", "always, missing (the default) or never"),
        Word("pull", same_as="pull_policy", means="pull_policy"),
        Word("volumes", "source:target, with :ro or :rw"),
        Word("env", "more variables; the container has those of the step as well"),
        Word("working_dir", "the directory within the container"),
        Word("user", "the user, and :group"),
        Word("platform", "the platform of the image, such as linux/amd64"),
        Word("ports", "published ports, such as 8080:80"),
        Word("network", "the network"),
        Word("shell", "the shell within it, such as [/bin/sh, -c]; without it, none is used"),
        Word("command", "with docker.run: the command"),
        Word("auto_remove", "false: the container stays when the command has ended"),
        Word("keep_container", "true: it stays at the end of the run"),
        *_refused("let the image start its service", "startup", "wait_for", "log_pattern"),
        *_refused("start services before the flow", "restart_policy", "health_check"),
        *_refused("use the options of this table", "host", "container"),
    ],
)

OUTPUTS: Final = Table(
    "An item of `outputs`",
    [
        Word("name", "its name, in ${steps.ID.outputs.NAME}"),
        Word("type", "string or json"),
        *_refused("write the value, and not a file", "path"),
    ],
)

SECRET: Final = Table(
    "An item of `secrets`",
    [
        Word("name", "the variable, and the name of the secret on the node"),
        Word("provider", "env, file or command, which the note of flow check repeats"),
        Word("key", "the variable, file or command"),
        Word("ref", "the name that Dagu has for it"),
        *_refused("let a command on the node get it", "options"),
    ],
)

TABLES: Final = (
    *(FLOW, STEP, RETRY, REPEAT, CONTINUE, RUN_CONFIG, CONDITION),
    *(SCHEDULE, HANDLERS, PARAM, HTTP, EXEC, RUN, CALL, HUMAN, PARALLEL, OUTPUT),
    *(JQ, MAIL, SMTP, MAIL_ON, REPORT, TEMPLATE, DEFAULTS, CONTAINER, OUTPUTS, SECRET),
)
