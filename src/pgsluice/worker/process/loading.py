"""Load the app that a command names as `module:app`."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.frameworks import set_up
from pgsluice.printable import printable_block
from pgsluice.worker.app.app import App


def load_app(name: str) -> App:
    """Import the module and return its app.

    Modules are found as by `python -m`: in the current directory first. With `DJANGO_SETTINGS_MODULE`, Django is set up
    before.

    Args:
        name: `package.module:attribute`; the attribute defaults to `app`.

    Raises:
        ConfigurationError: The module does not exist, cannot be imported, or has no such app. An exception of the
            module itself is printed to standard error.
    """
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found: Any = _import(module_name)
    for part in (attribute or "app").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(
                f"module {module_name} has no {attribute or 'app'}; name the App as module:attribute"
            ) from None
    if not isinstance(found, App):
        raise ConfigurationError(
            f"{name} is a {type(found).__name__}, not an App; name the App as module:attribute"
        )
    return found


def _import(module_name: str) -> object:
    try:
        set_up()
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise ConfigurationError(
                f"no module named {error.name!r} in {Path.cwd()} or on Python's path; name the App as module:attribute"
            ) from None
        reason = str(error)
        trace = traceback.format_exc()
    except SluiceError as error:
        # Such as a handler with a wrong signature: the message names it.
        raise ConfigurationError(f"module {module_name} cannot be imported: {error}") from error
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        reason = type(error).__name__
        trace = traceback.format_exc()
    sys.stderr.write(printable_block(trace.rstrip()) + "\n")
    raise ConfigurationError(f"module {module_name} cannot be imported: {reason}; see above")
