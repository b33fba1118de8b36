"""Checks of the installed schemas: version, missing and foreign objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from pgsluice import schema
from pgsluice.client.calls import doctor
from pgsluice.client.calls.doctor import Symptom
from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.ops.doctor.findings import Check
from pgsluice.ops.doctor.probe import Probe
from pgsluice.schema.foreign import foreign_objects
from pgsluice.schema.ledger import has_legacy
from pgsluice.schema.texts import migrations, signatures


def _version(probe: Probe) -> Iterable[Symptom]:
    return probe.within(_compare_versions)


def _compare_versions(connection: psycopg.Connection[Any]) -> list[Symptom]:
    installed = schema.installed_versions(connection)
    if not installed:
        what = "pgsluice is not installed in this database"
        return [Symptom("fail", what, "pgsluice schema install")]
    if _has_tables_only(installed):
        missing = [
            m.version
            for m in migrations()
            if m.version.startswith("pgmq/") and m.version not in installed
        ]
        what = f"the tables are older than this package, which needs {', '.join(missing)}"
        return [Symptom("fail", what, "pgsluice schema install --tables-only")] if missing else []
    try:
        schema.require(connection)
    except NotInstalledError as error:
        return [Symptom("fail", str(error), "pgsluice schema upgrade")]
    except SchemaError as error:
        return [Symptom("fail", str(error), "pip install --upgrade pgsluice")]
    known = {each.version for each in migrations(legacy=has_legacy(installed))}
    if newer := sorted(set(installed) - known):
        what = f"the schema is newer than this package: it has {', '.join(newer)}"
        return [Symptom("warn", what, "pip install --upgrade pgsluice")]
    return []


def _has_tables_only(installed: tuple[str, ...]) -> bool:
    """True after `pgsluice schema install --tables-only`, for clients that use no functions."""
    return all(version.startswith("pgmq/") for version in installed)


def _objects(probe: Probe) -> Iterable[Symptom]:
    for line in probe.within(schema.problems):
        yield Symptom("fail", line, "pgsluice schema verify")
    installed = probe.within(schema.installed_versions)
    if not _has_tables_only(installed):
        released = signatures(legacy=has_legacy(installed))
        yield from probe.fetch(doctor.missing_functions(released))
    yield from probe.fetch(doctor.invalid_indexes())
    for what, why, way_out, is_refused in probe.within(foreign_objects):
        if is_refused:
            yield Symptom("warn", f"{what} {why}; {way_out}", "pgsluice schema verify")


CHECKS = (
    Check(
        "schema",
        "clients and workers of this release need its tables and functions",
        "the schema has the version of this package",
        _version,
        needs_schema=False,
    ),
    Check(
        "objects",
        "calls that need a missing object fail; foreign code in our schemas stops upgrades",
        "all objects of this release exist",
        _objects,
    ),
)
