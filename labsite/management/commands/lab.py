"""`manage.py lab`: the whole lab on one machine, from nothing, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from labsite.home import lab_home
from labsite.instance import CannotStart
from labsite.lab import Lab, LabOptions
from labsite.processes import StartFailed


class Command(BaseCommand):
    help = "Run the lab: database, broker, web server, recorder, control worker and two local nodes."
    # The database is started by this command; nothing can be checked against it before.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port, 0 for any (default %(default)s)")
        parser.add_argument("--demo", action="store_true", help="run the demonstration experiment")
        parser.add_argument("--exit", action="store_true", help="with --demo: end the lab afterwards")
        parser.add_argument("--json", type=Path, metavar="FILE", help="with --demo: write the comparison to FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["demo"] and (options["exit"] or options["json"]):
            raise CommandError("--exit and --json go with --demo")
        lab = Lab(
            lab_home(),
            LabOptions(
                host=options["host"],
                port=options["port"],
                demo=options["demo"],
                exit_after_demo=options["exit"],
                json_file=options["json"],
            ),
        )
        try:
            status = lab.run()
        except (CannotStart, StartFailed) as error:
            raise CommandError(str(error)) from error
        if status:
            raise SystemExit(status)
