"""Errors for an extra that is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("module", "extra"), [("taskiq", "taskiq"), ("kombu", "celery")])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(module, extra):
    command = f"import sys; sys.modules['{module}'] = None; import pgsluice.contrib.{module}"

    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)

    assert f"pip install 'pgsluice[{extra}]'" in result.stderr
    assert "MissingExtraError" in result.stderr
