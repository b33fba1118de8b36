"""Breaking migrations: the first line of each file, which --allow-breaking depends on."""

from __future__ import annotations

from pgsluice.schema.texts import migrations

BREAKING = {"sluice/0031_backoff_factor"}


def test_only_known_migrations_are_breaking():
    found = {migration.version for migration in migrations(legacy=True) if migration.breaking}

    assert found == BREAKING, (
        "was the first line of a migration reflowed? It must be `-- breaking: no`"
    )
