"""Lazy imports: a package imports a module at the first use of one of its names."""

from __future__ import annotations

import importlib
import inspect
import json
import pydoc
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

import pgsluice

LIST = "import json, sys\n{statement}\nprint(json.dumps(sorted(n for n in sys.modules if n.startswith('pgsluice'))))"


def modules_after(statement: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIST.format(statement=statement)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(json.loads(result.stdout))


@pytest.mark.slow
def test_imports_of_a_spark_task_hold_no_worker_and_no_client():
    modules = modules_after("import pgsluice.spark.source")

    assert "pgsluice.spark.batch" in modules
    assert not [name for name in modules if name.startswith(("pgsluice.worker", "pgsluice.cli."))]
    of_clients = {name for name in modules if name.startswith("pgsluice.client._")}
    assert of_clients == {"pgsluice.client._sync", "pgsluice.client._sync.runner"}


def test_client_is_imported_without_the_worker():
    modules = modules_after("from pgsluice import WorkQueue")

    assert "pgsluice.client._sync.work_queue" in modules
    assert not [name for name in modules if name.startswith("pgsluice.worker")]


@pytest.mark.parametrize("package", ["pgsluice", "pgsluice.client", "pgsluice.worker"])
def test_each_name_of_a_package_is_there(package):
    space: dict[str, object] = {}
    exec(f"from {package} import *", space)

    assert set(sys.modules[package].__all__) <= set(space)


def test_version_is_that_of_the_distribution_and_is_read_only_when_needed():
    assert pgsluice.__version__ == version("pgsluice")

    modules = "import pgsluice, sys; assert 'importlib.metadata' not in sys.modules"
    assert modules_after(modules)


def test_every_error_can_be_imported_from_the_package():
    missing = [
        name
        for name, kind in inspect.getmembers(pgsluice.errors, inspect.isclass)
        if issubclass(kind, pgsluice.SluiceError) and name not in pgsluice.__all__
    ]

    assert missing == []


def test_modules_are_attributes_of_the_package():
    assert modules_after("import pgsluice; pgsluice.client.WorkQueue; pgsluice.errors.SluiceError")


def test_an_unknown_name_is_an_error_like_any_other():
    with pytest.raises(AttributeError, match="module 'pgsluice' has no attribute 'Wrok'"):
        pgsluice.Wrok  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Wrok' from 'pgsluice'"):
        exec("from pgsluice import Wrok", {})


@pytest.mark.parametrize("package", ["pgsluice", "pgsluice.client", "pgsluice.worker"])
def test_help_and_completion_show_each_name_of_a_package(package):
    module = importlib.import_module(package)

    assert set(module.__all__) <= set(dir(module))
    text = pydoc.plain(pydoc.render_doc(module))
    assert all(re.search(rf"\b{name}\b", text) for name in module.__all__)
