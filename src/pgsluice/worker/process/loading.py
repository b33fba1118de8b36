"""Finds the app that a command names as `module:app`."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError
from pgsluice.worker.app.app import App


def load_app(name: str) -> App:
    """Import the module and return its app.

    Modules are found as by `python -m`: in the current folder first.

    Args:
        name: `package.module:attribute`; without an attribute it is `app`.

    Raises:
        ConfigurationError: There is no such module, it cannot be imported, or has no such app. What the module itself
            raised is on standard error.
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
            f"{name} is a {type(found).__name__}, and no App; name the App as module:attribute"
        )
    return found


def _import(module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise ConfigurationError(
                f"there is no module {error.name} in {Path.cwd()} or on Python's path; name the App as module:attribute"
            ) from None
        reason = str(error)
        trace = traceback.format_exc()
    except Exception as error:  # noqa: BLE001 - the user's code may raise whatever it likes
        reason = type(error).__name__
        trace = traceback.format_exc()
    sys.stderr.write(trace)
    raise ConfigurationError(f"module {module_name} cannot be imported: {reason}; see above")
