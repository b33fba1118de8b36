"""`manage.py pgsluice_worker`: run the handlers of the project's app."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser, handle_default_options

from pgsluice.contrib.django.app import WORKER_DATABASE


class Command(BaseCommand):
    """Run the handlers of an app until stopped, with the options of `pgsluice worker run`."""

    help = (
        "Run the handlers of the setting PGSLUICE_APP and the tasks of TASKS until stopped, or those of another app, "
        "given as MODULE:APP before the options. Further options are those of `pgsluice worker run`: see its --help."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option for a project with several databases."""
        parser.add_argument(
            "--database",
            metavar="ALIAS",
            help="Run the handlers of PGSLUICE_APP and the tasks of TASKS whose messages are in this database of "
            "DATABASES. Default: that of PGSLUICE_APP, else default.",
        )

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command with options that Django does not know; the app, if given, is the first argument."""
        self._called_from_command_line = True  # errors are printed, as by other commands
        has_app = len(argv) > 2 and not argv[2].startswith("-")
        parser = self.create_parser(argv[0], argv[1], allow_abbrev=False)
        known, options = parser.parse_known_args(argv[3 if has_app else 2 :])
        if has_app and known.database is not None:
            parser.error(
                "--database chooses handlers of PGSLUICE_APP and TASKS; an app has its own"
            )
        handle_default_options(known)
        self.handle(app=argv[2] if has_app else None, database=known.database, options=options)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Replace this process by the worker."""
        name = options.get("app") or "pgsluice.contrib.django.worker:app"
        if (database := options.get("database")) is not None:
            os.environ[WORKER_DATABASE] = database
        os.environ["DJANGO_SETTINGS_MODULE"] = settings.SETTINGS_MODULE
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, sys.path)
        )  # with manage.py's folder
        command = [sys.executable, "-m", "pgsluice", "worker", "run", name]
        sys.stdout.flush()
        os.execv(sys.executable, [*command, *options.get("options", ())])  # noqa: S606
