"""The duebook command: reads arguments, prints results on stdout and complaints on stderr."""

from __future__ import annotations

import click

from duebook.cli.group import DuebookGroup
from duebook.version import __version__

__all__ = ["main"]


@click.group(
    cls=DuebookGroup,
    commands_of={
        "up": "node:up_command",
        "worker": "node:worker_command",
        "web": "node:web_command",
        "add": "definitions:add_command",
        "update": "definitions:update_command",
        "ls": "schedules:ls_command",
        "show": "schedules:show_command",
        "rm": "schedules:rm_command",
        "pause": "schedules:pause_command",
        "resume": "schedules:resume_command",
        "run": "schedules:run_command",
        "reschedule": "schedules:reschedule_command",
        "skip-next": "schedules:skip_next_command",
        "restore": "schedules:restore_command",
        "preview": "due_times:preview_command",
        "explain": "due_times:explain_command",
        "backfill": "due_times:backfill_command",
        "runs": "runs:runs_command",
        "logs": "logs:logs_command",
        "output": "runs:output_command",
        "cancel": "runs:cancel_command",
        "retry": "runs:retry_command",
        "template": "templates:template_group",
        "flow": "flows:flow_group",
        "queue": "queues:queue_group",
        "events": "events:events_group",
        "namespace": "namespaces:namespace_group",
        "token": "tokens:token_group",
        "audit": "audit:audit_command",
        "nodes": "nodes:nodes_command",
        "status": "status:status_command",
        "tick": "node:tick_command",
        "db": "db:db_group",
        "next": "times:next_command",
        "describe": "times:describe_command",
        "completion": "completion:completion_command",
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, "-V", "--version", message="duebook %(version)s")
@click.option("--database", metavar="URL", help="Where the books are. [env: DUEBOOK_DATABASE_URL]")
@click.option("--url", metavar="URL", help="A server to ask instead. [env: DUEBOOK_URL]")
@click.option("--token", metavar="TEXT", help="For that server. [env: DUEBOOK_TOKEN]")
@click.option("--namespace", metavar="NAME", help="[env: DUEBOOK_NAMESPACE; default: default]")
@click.pass_context
def main(ctx: click.Context, /, database: str | None, **options: str | None) -> None:
    """A durable scheduler: every due time is accounted for.

    Exit codes: 0 ok, 1 failure, 2 usage or invalid input, 3 not found,
    4 unreachable, 5 the awaited run failed.
    """
    ctx.obj = {"database_url": database, **options}
