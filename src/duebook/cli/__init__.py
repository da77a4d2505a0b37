"""The duebook command: reads arguments, prints results on stdout and errors on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.cli.commands import GLOBAL
from duebook.cli.exit_codes import in_help
from duebook.cli.group import DuebookGroup
from duebook.version import __version__

if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]


@click.group(
    help=f"A durable scheduler: every due time is accounted for.\n\n{in_help()}",
    cls=DuebookGroup,
    commands_of={
        "Run it": {
            "up": "node:up_command",
            "worker": "node:worker_command",
            "web": "node:web_command",
            "tick": "node:tick_command",
        },
        "Schedules": {
            "add": "definitions:add_command",
            "update": "definitions:update_command",
            "diff": "declarations:diff_command",
            "apply": "declarations:apply_command",
            "export": "export:export_command",
            "import": "imports:import_group",
            "ls": "schedules:ls_command",
            "show": "schedules:show_command",
            "rm": "schedules:rm_command",
            "pause": "schedules:pause_command",
            "resume": "schedules:resume_command",
            "run": "run:run_command",
            "reschedule": "schedules:reschedule_command",
            "skip-next": "schedules:skip_next_command",
            "restore": "schedules:restore_command",
            "preview": "due_times:preview_command",
            "explain": "due_times:explain_command",
            "stats": "stats:stats_command",
            "backfill": "backfill:backfill_command",
            "catchup": "catchup:catchup_group",
            "simulate": "simulate:simulate_command",
            "spread": "simulate:spread_command",
            "template": "templates:template_group",
            "calendar": "calendars:calendar_group",
            "window": "windows:window_group",
            "shadow": "shadow:shadow_group",
            "feed": "feeds:feed_group",
            "next": "times:next_command",
            "describe": "times:describe_command",
        },
        "Runs": {
            "enqueue": "enqueue:enqueue_command",
            "wait": "enqueue:wait_command",
            "runs": "runs:runs_command",
            "logs": "logs:logs_command",
            "output": "runs:output_command",
            "cancel": "runs:cancel_command",
            "retry": "runs:retry_command",
        },
        "Flows": {"flow": "flows:flow_group"},
        "Operate": {
            "status": "status:status_command",
            "doctor": "doctor:doctor_command",
            "nodes": "nodes:nodes_command",
            "drain": "nodes:drain_command",
            "undrain": "nodes:undrain_command",
            "queue": "queues:queue_group",
            "alert": "alerts:alert_group",
            "events": "events:events_group",
            "namespace": "namespaces:namespace_group",
            "token": "tokens:token_group",
            "audit": "audit:audit_command",
            "db": "db:db_group",
            "zones": "zones:zones_group",
            "mcp": "mcp_command:mcp_command",
            "completion": "completion:completion_command",
        },
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    __version__, "-V", "--version", message="duebook %(version)s", help="Print the version."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; may also follow the command.")
@click.pass_context
def main(ctx: click.Context, /, as_json: bool, **_: Any) -> None:
    """Runs before every command."""
    ctx.obj = {**(ctx.obj or {}), "as_json": as_json}


main.params.extend(GLOBAL)
