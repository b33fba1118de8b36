"""Settings that a site may give a database, and that must change nothing of what we do."""

from __future__ import annotations

import os

import psycopg

# With PGSLUICE_TEST_SETTINGS=odd, tests run in databases with the settings of an odd site.
IS_ODD = os.environ.get("PGSLUICE_TEST_SETTINGS") == "odd"

ODD = {
    "client_encoding": "'LATIN1'",
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'sql_standard'",
    "timezone": "'Asia/Kathmandu'",
    "default_transaction_isolation": "'repeatable read'",
    "standard_conforming_strings": "off",
    "bytea_output": "'escape'",
    "extra_float_digits": "0",
    "lock_timeout": "'500ms'",
    "statement_timeout": "'20s'",
    "idle_in_transaction_session_timeout": "'5s'",
    "idle_session_timeout": "'5s'",
    "search_path": "''",
    "jit": "on",
    "jit_above_cost": "0",
    "plan_cache_mode": "'force_generic_plan'",
    "quote_all_identifiers": "on",
    "client_min_messages": "'error'",
}

# Options with which a session of a test can be read, and creates tables of its own.
READABLE = (
    "-c client_encoding=UTF8 -c datestyle=ISO -c intervalstyle=postgres -c search_path=public "
    "-c default_transaction_isolation=read\\ committed -c idle_session_timeout=0"
)


def set_for_database(connection: psycopg.Connection, name: str, settings: dict[str, str]) -> None:
    """Set the defaults of new sessions in a database."""
    for setting, value in settings.items():
        connection.execute(f"alter database {name} set {setting} = {value}")


def set_if_odd(connection: psycopg.Connection, name: str) -> None:
    """Set the odd defaults in a new database, if this run asks for them."""
    if IS_ODD:
        set_for_database(connection, name, ODD)
