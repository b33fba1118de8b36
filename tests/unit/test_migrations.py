"""Breaking migrations: the first line of each file, which --allow-breaking depends on."""

from __future__ import annotations

from pgsluice.schema.texts import BASELINE, migrations

BREAKING: set[str] = set()


def test_only_known_migrations_are_breaking():
    found = {migration.version for migration in migrations(legacy=True) if migration.breaking}

    assert found == BREAKING, (
        "was the first line of a migration reflowed? It must be `-- breaking: no`"
    )


def test_each_schema_with_tables_begins_with_its_baseline():
    versions = [migration.version for migration in migrations()]

    for schema in ("pgmq", "pgq", "sluice"):
        of_schema = [version for version in versions if version.startswith(f"{schema}/")]
        assert of_schema[0] == f"{schema}/{BASELINE}"
        assert of_schema == sorted(of_schema)
