"""Which versions, formats and cases of a test run where: all of them, `make test`, or the slow and long tests.

A choice depends on the names of the tests only, so each process and run makes the same.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Callable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from support.servers import DEBIAN_15, VERSIONS

# Each of these tests runs on one version, chosen by its name, unless --every-version is given. All
# others, such as those of upstream's suites, run on each.
BY_TURNS = (
    *(f"tests/db/{schema}/" for schema in ("pgmq", "pgq", "pgq_coop", "sluice", "legacy")),
    *(
        f"tests/db/test_{name}.py"
        for name in (
            "adopt",
            "install",
            "install_trust",
            "managed_servers",
            "repair",
            "replication",
        )
    ),
    *("tests/client/", "tests/concurrency/", "tests/worker/"),
    *("tests/compat/test_official_client.py", "tests/compat/test_official_listener.py"),
)
# A slow test of Spark in several formats or stores runs in one of them, chosen by its name; the others are long tests.
FORMATS = re.compile("delta|iceberg|disk|object[ -]store")
# Parameters whose values are variants of the same test. `make test` runs one variant of each test.
VARIANTS = {"server", "peer", "installation", "make", "clients", "style", "is_async", "handle", "consuming"}  # fmt: skip
# Of a test with many cases, `make test` runs this many in MANY_CASES, and .ci/run the second number of
# those that are marked slow, but all that compare with PGMQ and PgQ. Elsewhere a case is cheap, or a
# run of its own.
CASES, SLOW_CASES = 1, 3
IN_BOTH = ("tests/db/", "tests/acceptance/", "tests/client/", "tests/dashboard/")
MANY_CASES = (*IN_BOTH, "tests/compat/")
MANY_SLOW_CASES = (*IN_BOTH, "tests/worker/")
SPARK = "tests/spark/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-version",
        action="store_true",
        help="run every test on each version, including those of functions, clients and races",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the versions that are not chosen, and start with Spark."""
    if not config.getoption("--every-version"):
        chosen: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            (chosen if _is_its_turn(item) else left_out).append(item)
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
        _mark_further_variants(items)
        _mark_further_cases(items)
        _mark_further_formats(items)
    # Spark's tests take longest; if they were last, the other processes would wait for them.
    items.sort(key=lambda item: not item.nodeid.startswith(SPARK))


def _mark_further_variants(items: list[pytest.Item]) -> None:
    """Mark all variants of a test but one as `slow`; each process and run chooses the same."""
    alike: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        params = _params(item)
        if VARIANTS & params.keys():
            others = [repr(value) for name, value in sorted(params.items()) if name not in VARIANTS]
            alike[item.nodeid.split("[")[0], *others].append(item)
    for variants in alike.values():
        ours = [item for item in variants if _runs_ours(item)] or variants
        first = ours[zlib.crc32(variants[0].nodeid.encode()) % len(ours)]
        for item in variants:
            if item is not first:
                item.add_marker(pytest.mark.slow)


def _mark_further_cases(items: list[pytest.Item]) -> None:
    """Mark all but CASES cases of a test as `slow`, and of the slow ones all but SLOW_CASES as `long`."""
    fast = [i for i in _in(MANY_CASES, items) if not i.get_closest_marker("slow")]
    _mark_after(CASES, pytest.mark.slow, fast, _name)
    slow = [i for i in _in(MANY_SLOW_CASES, items) if i.get_closest_marker("slow")]
    _mark_after(SLOW_CASES, pytest.mark.long, slow, _name)


def _mark_further_formats(items: list[pytest.Item]) -> None:
    """Mark slow tests of Spark in all FORMATS but one as `long`."""
    slow = [i for i in _in(SPARK, items) if i.get_closest_marker("slow")]
    _mark_after(1, pytest.mark.long, slow, _name_without_format)


def _in(folders: str | tuple[str, ...], items: list[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if item.nodeid.startswith(folders)]


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _name_without_format(item: pytest.Item) -> str:
    name, _, params = item.nodeid.partition("[")
    return name + FORMATS.sub("", params)


def _mark_after(
    count: int,
    mark: pytest.MarkDecorator,
    items: list[pytest.Item],
    name: Callable[[pytest.Item], str],
) -> None:
    """Mark items of one name after the first `count`; the order is equal in each process and run."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[name(item)].append(item)
    for alike in cases.values():
        alike.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in alike[count:]:
            item.add_marker(mark)


class SparkInOneProcess(LoadFileScheduling):
    """Schedule by file, with all Spark files in one process: two JVMs would compete for cores."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkInOneProcess | None:
    return SparkInOneProcess(config, log) if config.getoption("dist") == "loadfile" else None


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_its_turn(item: pytest.Item) -> bool:
    version = next((value for value in _params(item).values() if value in VERSIONS), None)
    if version is None or not item.nodeid.startswith(BY_TURNS):
        return True
    # Chosen by the test's name, so that the choice is equal in each process and run.
    there = [v for v in VERSIONS if v != "15" or DEBIAN_15.exists()]
    name = item.nodeid.replace(f"pg{version}", "")
    return version == there[zlib.crc32(name.encode()) % len(there)]


def _runs_ours(item: pytest.Item) -> bool:
    """False for upstream's PGMQ or PgQ, and for a PostgreSQL that is not installed."""
    where = [value for name, value in _params(item).items() if name in VARIANTS]
    names = {name for value in where for name in (value if isinstance(value, tuple) else (value,))}
    return names.isdisjoint({"upstream", "pgq"}) and ("15" not in names or DEBIAN_15.exists())
