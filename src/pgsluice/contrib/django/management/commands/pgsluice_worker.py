"""`manage.py pgsluice_worker`: run the handlers of the project's app."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    handle_default_options,
)


class Command(BaseCommand):
    """Run the handlers of an app until stopped, with the options of `pgsluice worker run`."""

    help = (
        "Run the handlers of an app until stopped. All options of `pgsluice worker run` can be given; its --help lists "
        "them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the name of the app; the options are passed on."""
        parser.add_argument(
            "app",
            nargs="?",
            metavar="MODULE:APP",
            help="The app (default: the setting PGSLUICE_APP).",
        )

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command with options that Django does not know."""
        parser = self.create_parser(argv[0], argv[1])
        known, options = parser.parse_known_args(argv[2:])
        handle_default_options(known)
        try:
            self.handle(app=known.app, options=options)
        except CommandError as error:
            sys.stderr.write(f"pgsluice_worker: {error}\n")
            sys.exit(error.returncode)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Replace this process by the worker."""
        name = options["app"] or getattr(settings, "PGSLUICE_APP", None)
        if name is None:
            raise CommandError("name the app as MODULE:APP, or set PGSLUICE_APP in the settings")
        os.environ["DJANGO_SETTINGS_MODULE"] = settings.SETTINGS_MODULE
        command = [sys.executable, "-m", "pgsluice", "worker", "run", name]
        sys.stdout.flush()
        os.execv(sys.executable, [*command, *options.get("options", ())])  # noqa: S606
