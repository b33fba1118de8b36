"""Connections of ADBC's driver with the settings of our sessions."""

from __future__ import annotations

from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi

from pgsluice.client.calls.spark_reading import NO_TRANSACTION_TIMEOUT
from pgsluice.sessions import Session


def connect(dsn: str) -> Any:
    """Open a connection in autocommit mode; its `has_limits` is as that of `SluiceConnection`."""
    session = Session.to(dsn)
    try:
        connection = _open(dsn, session)
    except adbc_driver_manager.Error as error:
        if not session.refused(error):
            raise
        connection = _open(dsn, session)
        connection.has_limits = True
        return connection
    connection.has_limits = False
    with connection.cursor() as cursor:
        cursor.execute(NO_TRANSACTION_TIMEOUT)
        cursor.fetchall()
    return connection


def _open(dsn: str, session: Session) -> Any:
    return adbc_driver_postgresql.dbapi.connect(session.conninfo(dsn), autocommit=True)
