"""`manage.py duebook`: a node with the tasks of the site, until Ctrl-C."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from duebook.errors import DuebookError
from duebook.integrations.django import book
from duebook.store.opening import place_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

__all__ = ["Command"]


class Command(BaseCommand):
    help = "Plan due times and run the tasks of this site until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--roles",
            default="scheduler,worker,relay",
            help="roles of the node (default: %(default)s)",
        )
        parser.add_argument("--slots", type=int, default=10, help="runs at the same time")
        parser.add_argument("--queue", action="append", help="queue to serve; may be repeated")
        parser.add_argument(
            "--serve",
            metavar="NAMESPACES",
            help="namespaces whose runs it executes, such as shop,billing, or * for all; the "
            "default is the site's namespace",
        )
        parser.add_argument(
            "--pass-env",
            metavar="NAMES",
            help="more variables to pass to commands, such as EDITOR,AWS_*",
        )
        parser.add_argument("--run-as", metavar="USER", help="run commands as another user")
        parser.add_argument(
            "--stop-within",
            metavar="LENGTH",
            help="how long to wait for running runs when told to stop, such as 5m",
        )
        parser.add_argument(
            "--lease",
            metavar="LENGTH",
            help="how long it may be out of touch with the database, from 30s to 10m",
        )
        parser.add_argument(
            "--prune", action="store_true", help="delete schedules that code no longer declares"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        logging.getLogger("duebook").setLevel(logging.INFO)
        try:
            self.stdout.write(f"database: {place_of(book.database_url).removeprefix('database ')}")
            self.stdout.write(f"tasks: {', '.join(book.tasks.names) or 'none'}")
            self.stdout.flush()
            with book:
                book.run(
                    options["roles"].split(","),
                    slots=options["slots"],
                    queues=options["queue"] or ["default"],
                    serve=options["serve"],
                    prune=options["prune"],
                    keep_prints=True,
                    pass_env=options["pass_env"],
                    run_as=options["run_as"],
                    stop_within=options["stop_within"],
                    lease=options["lease"],
                )
        except DuebookError as error:
            raise CommandError(str(error)) from error
