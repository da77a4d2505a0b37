"""What values may influence in each key of a flow file; docs/security.md shows this list.

Values are what the caller of a flow gives or chooses, and what results from that: params, outputs
of steps, variables built from these, and the name of the schedule. They never choose which program
runs, which flow or task, or where a request goes.
"""

from __future__ import annotations

from typing import Final, Literal

from duebook.flows.words import POLICY_KEYS

__all__ = ["INFLUENCE", "Influence"]

Influence = Literal["refused", "checked", "data", "none"]
"""refused: a value in it is a problem of the file. checked: values are arguments or variables, and
a problem where one would choose what runs. data: values reach what runs, or are compared, as data.
none: no value is ever filled in; the text is used as written."""

_FLOW: Final[dict[str, Influence]] = {
    **{key: "refused" if f.kind.shape == "name" else "none" for key, f in POLICY_KEYS.items()},
    **dict.fromkeys(("working_dir", "shell", "shell_args", "worker_selector"), "refused"),
    **dict.fromkeys(("container", "dotenv", "smtp"), "refused"),
    **dict.fromkeys(("env", "preconditions", "steps", "handler_on", "params"), "checked"),
    **dict.fromkeys(("defaults", "secrets"), "checked"),
    **dict.fromkeys(("name", "group", "schedule", "tz", "restart_wait_sec", "type"), "none"),
    **dict.fromkeys(("max_active_steps", "delay_sec", "max_output_size", "retry_policy"), "none"),
    **dict.fromkeys(("max_clean_up_time_sec", "run_config"), "none"),
    **dict.fromkeys(("hist_retention_days", "mail_on", "log_dir", "log_output", "otel"), "none"),
    **dict.fromkeys(("error_mail", "info_mail"), "refused"),
}
_STEP: Final[dict[str, Influence]] = {
    **dict.fromkeys(("working_dir", "shell", "shell_args", "call", "action", "task"), "refused"),
    **dict.fromkeys(("container", "stdout", "stderr"), "refused"),
    **dict.fromkeys(("worker_selector", "executor", "type"), "refused"),
    **dict.fromkeys(("run", "command", "script", "exec", "env", "preconditions"), "checked"),
    **dict.fromkeys(("http", "event", "config", "output"), "checked"),
    **dict.fromkeys(("payload", "params", "parallel"), "data"),
    **dict.fromkeys(("name", "id", "description", "depends", "timeout_sec", "retries"), "none"),
    **dict.fromkeys(("retry_policy", "continue_on", "signal_on_stop", "outputs"), "none"),
    "repeat_policy": "checked",
}
INFLUENCE: Final[dict[str, dict[str, Influence]]] = {
    "A flow": _FLOW,
    "A step": _STEP,
    "`retry_policy`": dict.fromkeys(
        ("limit", "interval_sec", "backoff", "max_interval_sec", "exit_code"), "none"
    ),
    "`repeat_policy`": {
        "condition": "checked",
        "expected": "data",
        **dict.fromkeys(("repeat", "exit_code", "interval_sec", "limit"), "none"),
        **dict.fromkeys(("backoff", "max_interval_sec"), "none"),
    },
    "`run_config`": dict.fromkeys(("disable_param_edit", "disable_run_id_edit"), "none"),
    "`continue_on`": dict.fromkeys(
        ("failure", "skipped", "exit_code", "output", "mark_success"), "none"
    ),
    "`preconditions`": {
        **dict.fromkeys(("condition", "eval"), "checked"),
        "expected": "data",
        "negate": "none",
    },
    "`schedule`": dict.fromkeys(("start", "stop", "restart"), "none"),
    "`handler_on`": dict.fromkeys(("init", "success", "failure", "abort", "exit"), "checked"),
    "An item of `params` that has a `name`": {
        "name": "checked",
        **dict.fromkeys(("default", "required", "type", "enum", "description"), "none"),
    },
    "`config` of type http": {
        "url": "checked",
        **dict.fromkeys(("headers", "body"), "data"),
        **dict.fromkeys(
            ("method", "timeout", "query", "silent", "json", "skip_tls_verify"), "none"
        ),
    },
    "`with` of `action: human.task`": {"prompt": "data"},
    "`parallel` as a mapping": {"items": "data", "max_concurrent": "none"},
    "`exec`": {"command": "refused", "args": "checked"},
    "`with` of `run`": {"shell": "refused", "shell_args": "refused"},
    "`with` of `action: dag.run`": {"dag": "refused", "params": "data"},
    "`output` as a mapping": {"name": "checked"},
    "`config` of jq, and `with` of `action: jq.filter`": {
        **dict.fromkeys(("filter", "input"), "refused"),
        **dict.fromkeys(("data", "args"), "data"),
        "raw": "none",
    },
    "`config` of mail, and `with` of `action: mail.send`": {
        **dict.fromkeys(("to", "cc", "bcc", "attachments"), "refused"),
        **dict.fromkeys(("from", "subject", "message"), "data"),
    },
    "`smtp` of a flow": {
        "host": "refused",
        "port": "none",
        **dict.fromkeys(("username", "password"), "data"),
    },
    "`mail_on`": dict.fromkeys(("failure", "success"), "none"),
    "`error_mail` and `info_mail`": {
        "to": "refused",
        **dict.fromkeys(("from", "prefix"), "data"),
        "attach_logs": "none",
    },
    "`with` of `action: template.render`": {
        "template": "none",
        "data": "data",
        "output": "refused",
    },
    "`defaults`": {
        **dict.fromkeys(("retry_policy", "continue_on", "timeout_sec", "signal_on_stop"), "none"),
        **dict.fromkeys(("env", "preconditions"), "checked"),
    },
    "`container`, `config` of docker, and `with` of `action: docker.run`": {
        **dict.fromkeys(("image", "exec", "name", "volumes", "working_dir", "user"), "refused"),
        **dict.fromkeys(("platform", "ports", "network", "shell"), "refused"),
        **dict.fromkeys(("pull_policy", "auto_remove", "keep_container"), "none"),
        "env": "data",
        "command": "checked",
    },
    "An item of `outputs`": dict.fromkeys(("name", "type"), "none"),
    "An item of `secrets`": {
        "name": "checked",
        **dict.fromkeys(("provider", "key", "ref"), "none"),
    },
}
"""Title of a table of `words` -> key -> what values may do there."""
