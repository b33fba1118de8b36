"""`manage.py pgsluice_worker`: run the handlers of the project's app."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import (
    BaseCommand,
    CommandError,
    handle_default_options,
)


class Command(BaseCommand):
    """Run the handlers of an app until stopped, with the options of `pgsluice worker run`."""

    help = (
        "Run the handlers of the app of the setting PGSLUICE_APP until stopped, or of another, given as MODULE:APP "
        "before the options. Further options are those of `pgsluice worker run`; its --help lists them."
    )

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command with options that Django does not know; the app, if given, is the first argument."""
        has_app = len(argv) > 2 and not argv[2].startswith("-")
        parser = self.create_parser(argv[0], argv[1], allow_abbrev=False)
        known, options = parser.parse_known_args(argv[3 if has_app else 2 :])
        handle_default_options(known)
        try:
            self.handle(app=argv[2] if has_app else None, options=options)
        except CommandError as error:
            sys.stderr.write(f"pgsluice_worker: {error}\n")
            sys.exit(error.returncode)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Replace this process by the worker."""
        name = options.get("app") or getattr(settings, "PGSLUICE_APP", None)
        if name is None:
            raise CommandError("name the app as MODULE:APP, or set PGSLUICE_APP in the settings")
        os.environ["DJANGO_SETTINGS_MODULE"] = settings.SETTINGS_MODULE
        command = [sys.executable, "-m", "pgsluice", "worker", "run", name]
        sys.stdout.flush()
        os.execv(sys.executable, [*command, *options.get("options", ())])  # noqa: S606
