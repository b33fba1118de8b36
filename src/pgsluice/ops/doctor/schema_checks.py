"""Checks of the installed schemas: version, missing and foreign objects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import psycopg

from pgsluice import schema
from pgsluice.client.calls import doctor
from pgsluice.client.calls.doctor import Symptom
from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.ops.doctor.findings import Check
from pgsluice.ops.doctor.probe import Probe
from pgsluice.schema.foreign import foreign_objects
from pgsluice.schema.ledger import has_legacy, known_migrations
from pgsluice.schema.texts import signatures


def _version(probe: Probe) -> Iterable[Symptom]:
    return probe.within(_compare_versions)


def _compare_versions(connection: psycopg.Connection[Any]) -> list[Symptom]:
    installed = schema.installed_versions(connection)
    if not installed:
        what = "pgsluice is not installed in this database"
        return [Symptom("fail", what, "pgsluice schema install")]
    if schema.has_tables_only(installed):
        missing = [m.version for m in known_migrations(installed) if m.version not in installed]
        what = f"the tables are older than this package, which needs {', '.join(missing)}"
        return [Symptom("fail", what, "pgsluice schema upgrade")] if missing else []
    try:
        schema.require(connection)
    except NotInstalledError as error:
        return [Symptom("fail", str(error), "pgsluice schema upgrade")]
    except SchemaError as error:
        return [Symptom("fail", str(error), "pip install --upgrade pgsluice")]
    known = {each.version for each in known_migrations(installed)}
    if newer := sorted(set(installed) - known):
        what = f"the schema is newer than this package: it has {', '.join(newer)}"
        return [Symptom("warn", what, "pip install --upgrade pgsluice")]
    return []


def _objects(probe: Probe) -> Iterable[Symptom]:
    for line in probe.within(partial(schema.problems, rows=False)):
        yield Symptom("fail", line, "pgsluice schema verify")
    installed = probe.within(schema.installed_versions)
    if not schema.has_tables_only(installed):
        released = signatures(legacy=has_legacy(installed))
        yield from probe.fetch(doctor.missing_functions(released))
    if schema.is_complete(installed):
        for difference in probe.within(schema.catalog_differences):
            if difference.what.endswith(" is invalid"):
                continue  # below, with those of queues and logs
            status = "warn" if difference.is_harmless else "fail"
            yield Symptom(status, difference.what, difference.command)
    yield from probe.fetch(doctor.invalid_indexes())
    for what, why, hint, is_refused in probe.within(foreign_objects):
        if is_refused:
            yield Symptom("warn", f"{what} {why}; {hint}", "pgsluice schema verify")


CHECKS = (
    Check(
        "schema",
        "clients and workers of this release need its tables and functions",
        "the schema has the version of this package",
        _version,
        scope="server",
    ),
    Check(
        "objects",
        "calls that need a missing object fail; foreign code in our schemas stops upgrades",
        "all objects of this release exist",
        _objects,
        scope="tables",
    ),
)
