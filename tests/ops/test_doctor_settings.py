"""Settings of roles and databases: reported, and without influence on the checks themselves."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import schema
from pgsluice.ops.doctor import diagnose
from support.doctor import QUIET, seen

ODD = {
    "session_replication_role": ("replica", "fail"),
    "client_encoding": ("LATIN1", "warn"),
    "default_transaction_isolation": ("'repeatable read'", "warn"),
    "default_transaction_read_only": ("on", "warn"),
    "datestyle": ("'SQL, DMY'", "warn"),
    "intervalstyle": ("sql_standard", "warn"),
    "standard_conforming_strings": ("off", "warn"),
    "quote_all_identifiers": ("on", "warn"),
    "row_security": ("off", "warn"),
    "statement_timeout": ("'20s'", "warn"),
    "lock_timeout": ("500", "warn"),
    "transaction_timeout": ("'1s'", "warn"),
    "idle_in_transaction_session_timeout": ("'5s'", "warn"),
    "idle_session_timeout": ("'5s'", "warn"),
}


def test_odd_settings_of_the_database_are_reported_until_they_are_reset(
    doctor, connection, database_18
):
    assert seen(doctor.finding("settings")) == QUIET
    for name, (value, _) in ODD.items():
        connection.execute(f"alter database {database_18.name} set {name} = {value}")

    found = doctor.finding("settings")

    assert found.status == "fail"
    assert found.what.startswith("session_replication_role = replica is set for database ")
    assert set(found.commands) == {f"alter database {database_18.name} reset {n}" for n in ODD}
    for command in found.commands:
        connection.execute(command.encode())
    assert seen(doctor.finding("settings")) == QUIET


def test_common_settings_are_not_reported(doctor, connection, database_18):
    for setting in (
        "statement_timeout = '30s'",
        "lock_timeout = '5s'",
        "idle_in_transaction_session_timeout = '1min'",
        "idle_session_timeout = 0",
        "datestyle = 'ISO, DMY'",
        "client_encoding = 'utf-8'",
        "timezone = 'Asia/Kathmandu'",
        "default_transaction_isolation = 'read committed'",
    ):
        connection.execute(f"alter database {database_18.name} set {setting}")

    assert seen(doctor.finding("settings")) == QUIET


def test_setting_of_a_role_counts_if_the_role_may_use_the_schemas(doctor, connection, database_18):
    connection.execute("create role doctor_app login; create role doctor_other login")
    try:
        for role in ("doctor_app", "doctor_other"):
            connection.execute(f"alter role {role} set lock_timeout = '10ms'")
        connection.execute("grant sluice_reader to doctor_app")
        connection.execute(
            f"alter role doctor_app in database {database_18.name} set quote_all_identifiers = on"
        )
        found = doctor.finding("settings")
    finally:
        connection.execute("drop role doctor_app; drop role doctor_other")
    assert set(found.commands) == {
        "alter role doctor_app reset lock_timeout",
        f"alter role doctor_app in database {database_18.name} reset quote_all_identifiers",
    }


# All but the timeouts, and what a session cannot be opened with.
BUNDLE = ("datestyle", "intervalstyle", "quote_all_identifiers", "standard_conforming_strings")


def test_odd_settings_lead_to_no_advice_about_healthy_queues(connection, database_18):
    connection.execute(
        "select pgmq.create('orders'), pgmq.create_partitioned('parts', '10', '100')"
    )
    connection.execute("select pgmq.send('orders', '{}'), pgq.create_queue('changes')")
    for name in (*BUNDLE, "default_transaction_isolation", "transaction_timeout"):
        connection.execute(f"alter database {database_18.name} set {name} = {ODD[name][0]}")

    with psycopg.connect(database_18.url, autocommit=True) as session:
        findings = {each.check: each for each in diagnose(session)}
        assert schema.problems(session) == ()
        assert schema.catalog_differences(session) == []

    assert {name for name, each in findings.items() if each.status != "ok"} == {"settings"}


@pytest.mark.slow
def test_odd_settings_make_no_difference_to_verify(connection, database_18):
    connection.execute("select pgmq.create('orders'), pgq.create_queue('changes')")
    for name in BUNDLE:
        connection.execute(f"alter database {database_18.name} set {name} = {ODD[name][0]}")

    with psycopg.connect(database_18.url, autocommit=True) as session:
        assert schema.verify(session) == ()
        assert session.execute("show standard_conforming_strings").fetchone() == ("off",)
