"""Install the schemas by an operation of Alembic."""

from __future__ import annotations

import psycopg
import sqlalchemy
from alembic.migration import MigrationContext
from alembic.operations import Operations

import pgsluice.contrib.alembic
from pgsluice import WorkQueue, connect, resolve

assert pgsluice.contrib.alembic.__doc__
engine = sqlalchemy.create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(resolve().conninfo)
)
with engine.begin() as connection:
    Operations(MigrationContext.configure(connection)).install_pgsluice()  # type: ignore[attr-defined]
with connect() as own:
    WorkQueue(own).create("orders")
