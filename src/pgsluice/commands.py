"""Commands of pgsluice with names and options as a shell takes them."""

from __future__ import annotations

import shlex


def command(name: str, *arguments: str, **options: str | None) -> str:
    """Return a command of pgsluice for a shell.

    Args:
        name: The command: `queue set`.
        arguments: Names and ids.
        options: Values of options; None: it is left out.
    """
    flags = [
        f"--{option.replace('_', '-')}={value}"
        for option, value in options.items()
        if value is not None
    ]
    # Else a name that begins with a dash would be read as an option.
    dashes = ["--"] if any(argument.startswith("-") for argument in arguments) else []
    return f"pgsluice {name} " + " ".join(map(shlex.quote, (*flags, *dashes, *arguments)))
