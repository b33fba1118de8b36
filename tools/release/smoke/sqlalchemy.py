"""Send in the transaction of a session."""

from __future__ import annotations

import psycopg
import sqlalchemy
from sqlalchemy.orm import Session

import pgsluice.contrib.sqlalchemy
from pgsluice import WorkQueue, resolve, schema

with psycopg.connect(resolve().conninfo) as connection:
    schema.install(connection)
    WorkQueue(connection).create("orders")

assert pgsluice.contrib.sqlalchemy.__doc__
engine = sqlalchemy.create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(resolve().conninfo)
)
with Session(engine) as session:
    WorkQueue(session).send("orders", {"order": 1})
    session.rollback()
    WorkQueue(session).send("orders", {"order": 2})
    session.commit()
    messages = WorkQueue(session).read("orders", vt=30)
assert [message.message for message in messages] == [{"order": 2}], messages
