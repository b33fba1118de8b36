"""Import every package of pgsluice; the programs of the other extras run in this environment too."""

from __future__ import annotations

import importlib
import pkgutil

import pgsluice

for found in pkgutil.iter_modules(pgsluice.__path__, "pgsluice."):
    if found.name != "pgsluice.__main__":
        importlib.import_module(found.name)
