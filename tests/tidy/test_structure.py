"""The size of the structure: each figure may only fall. Lower the maximum in the commit that lowers the figure."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import grimp
import pytest

MAXIMA = {
    "kinds of tables": 50,
    "names of SQL functions": 615,
    "kinds of tables of dead letters": 1,
    "tables of settings of queues": 1,
    "places that compare attempts with their maximum": 1,
    "kinds of tables of heartbeats": 1,
    "leader elections": 1,
    "parsers of durations": 1,
    "merges into a lake table": 3,
    "commands": 89,
    "methods of WorkQueue": 46,
    "classes with a name of two modules": 0,
    "circles of imports, also for type checking": 0,
}


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    path = Path(__file__).parents[2] / "tools" / "structure.py"
    spec = importlib.util.spec_from_file_location("structure", path)
    assert spec is not None
    assert spec.loader is not None
    structure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(structure)
    return structure.sizes(grimp.build_graph("pgsluice", cache_dir=None))


@pytest.mark.parametrize("name", MAXIMA)
def test_structure_does_not_grow(sizes, name):
    assert sizes[name] <= MAXIMA[name], (
        "find the table, function, command or class that nearly does this, and make it serve both"
    )


def test_maximum_falls_with_its_figure(sizes):
    assert {name: sizes[name] for name in MAXIMA} == MAXIMA
