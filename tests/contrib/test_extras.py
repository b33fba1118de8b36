"""Errors for an extra that is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("contrib.taskiq", "taskiq", "taskiq"),
        ("contrib.kombu", "kombu", "celery"),
        ("dashboard", "starlette", "dashboard"),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(module, package, extra):
    command = f"import sys; sys.modules['{package}'] = None; import pgsluice.{module}"

    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)

    assert f"pip install 'pgsluice[{extra}]'" in result.stderr
    assert "MissingExtraError" in result.stderr
