"""Migrations of Alembic that install the schemas, as a project runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgsluice import WorkQueue, schema
from pgsluice.contrib.alembic import include_name
from support import value
from support.pages import blocks_of, pages

GUIDE = next(blocks_of(page) for page in pages("guides") if page.name == "alembic.md")
ENV = """
import sqlalchemy
from alembic import context
from pgsluice.contrib.alembic import include_name

metadata = sqlalchemy.MetaData()
sqlalchemy.Table("orders", metadata, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True))
options = dict(target_metadata=metadata, include_schemas=True{include_name})
if context.is_offline_mode():
    context.configure(dialect_name="postgresql", literal_binds=True, **options)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = sqlalchemy.create_engine("postgresql+{driver}://", creator=lambda: __import__("psycopg").connect({dsn!r}))
    with engine.connect() as connection:
        context.configure(connection=connection, **options)
        with context.begin_transaction():
            context.run_migrations()
"""
REVISION = """
import sqlalchemy
from alembic import op
import pgsluice.contrib.alembic

revision, down_revision = "0001", None

def upgrade():
    op.create_table("orders", sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True))
    op.install_pgsluice()
    op.execute("select pgmq.create('orders')")
    {more}

def downgrade():
    op.drop_table("orders")
"""


@pytest.fixture
def url(server_18: Any, request: pytest.FixtureRequest) -> Any:
    name = f"alembic_{abs(hash(request.node.name)) % 10_000}"
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute(f"create database {name}")
        yield server_18.url(name)
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def project(tmp_path: Path, url: str) -> Path:
    write(tmp_path, url)
    return tmp_path


def write(
    folder: Path, url: str, *, include_name: str = ", include_name=include_name", more: str = "pass"
) -> None:
    scripts = folder / "migrations"
    (scripts / "versions").mkdir(parents=True, exist_ok=True)
    (folder / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s/migrations\n")
    (scripts / "script.py.mako").write_text("${upgrades}\n")
    (scripts / "env.py").write_text(
        ENV.format(include_name=include_name, driver="psycopg", dsn=url)
    )
    (scripts / "versions" / "0001_install.py").write_text(REVISION.format(more=more))


def alembic(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_migration_installs_and_autogenerate_then_changes_nothing(project, url):
    assert alembic(project, "upgrade", "head").returncode == 0

    with psycopg.connect(url) as connection:
        assert schema.verify(connection) == ()
        assert WorkQueue(connection).send("orders", {"id": 1}) == 1
    found = alembic(project, "check")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "No new upgrade operations detected" in found.stdout + found.stderr


@pytest.mark.slow
def test_revision_of_the_guide_installs_and_its_options_are_those_of_the_tests(project, url):
    revision, env = [block.text for block in GUIDE if block.kind == "python"]
    (project / "migrations" / "versions" / "0001_install.py").write_text(revision)

    done = alembic(project, "upgrade", "head")

    assert done.returncode == 0, done.stderr
    with psycopg.connect(url) as connection:
        assert WorkQueue(connection).send("orders", {"id": 1}) == 1
    variables: dict[str, Any] = {}
    exec(env, variables)
    assert variables["options"] == {"include_schemas": True, "include_name": include_name}


@pytest.mark.slow
def test_autogenerate_without_include_name_would_drop_the_tables(project, url):
    alembic(project, "upgrade", "head")
    write(project, url, include_name="")

    found = alembic(project, "check")

    assert found.returncode != 0
    assert "remove_table" in found.stdout + found.stderr


@pytest.mark.slow
def test_failed_migration_installs_nothing(project, url):
    write(project, url, more="op.execute('select 1 / 0')")

    assert alembic(project, "upgrade", "head").returncode != 0

    with psycopg.connect(url) as connection:
        assert schema.installed_versions(connection) == ()


@pytest.mark.slow
def test_sql_of_an_offline_migration_installs(project, url):
    printed = alembic(project, "upgrade", "head", "--sql")
    assert printed.returncode == 0, printed.stderr

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(printed.stdout)
        assert schema.verify(connection) == ()
        assert value(connection, "select count(*) from pgmq.meta") == 1


@pytest.mark.slow
def test_migration_is_repeated_after_an_upgrade_of_the_package(project, url):
    write(project, url, more="op.install_pgsluice()")

    assert alembic(project, "upgrade", "head").returncode == 0
