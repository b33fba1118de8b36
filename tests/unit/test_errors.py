"""Errors: pickling, and the mapping of SQLSTATEs to classes."""

from __future__ import annotations

import copy
import inspect
import pickle
from types import SimpleNamespace

import psycopg
import psycopg_pool
import pytest

from pgsluice import errors
from pgsluice.cli.failures import hint
from pgsluice.errors import SluiceError, translate

CLASSES = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SluiceError)
]


def test_the_classes_are_found():
    assert len(CLASSES) > 15


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("sqlstate", [None, "42501"])
def test_every_error_survives_pickling_and_copying_with_its_sqlstate(kind, sqlstate):
    error = kind("queue 'orders' went away; create it", sqlstate=sqlstate)

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == "queue 'orders' went away; create it"
        assert again.sqlstate == sqlstate


@pytest.mark.parametrize(
    ("error", "text", "command"),
    [
        (
            errors.QueueNotFoundError(names=("a b",)),
            "queue 'a b' does not exist; create it with create('a b')",
            "queue 'a b' does not exist; create it with: pgsluice queue create 'a b'",
        ),
        (
            errors.LogNotFoundError(names=("l",)),
            "event log 'l' does not exist; create it with create('l')",
            "event log 'l' does not exist; create it with: pgsluice log create l",
        ),
        (
            errors.ConsumerNotFoundError(names=("l", "c;d")),
            "event log 'l' has no consumer 'c;d'; register it with register_consumer('l', 'c;d')",
            "event log 'l' has no consumer 'c;d'; register it with: pgsluice log consume --register l 'c;d'",
        ),
        (
            errors.GroupNotFoundError(names=("l", "g")),
            "event log 'l' has no share group 'g'; create it with ShareGroup.create('l', 'g')",
            "event log 'l' has no share group 'g'; create it with: pgsluice group create l g",
        ),
        (
            errors.ScheduleNotFoundError(names=("s",)),
            "schedule 's' does not exist; list_schedules() lists the existing schedules",
            "schedule 's' does not exist; list schedules with: pgsluice schedule list",
        ),
        (
            errors.ExportError(names=("q", "e")),
            "queue 'q' has no export 'e'; list_exports() lists the existing ones",
            "queue 'q' has no export 'e'; list exports with: pgsluice queue show q",
        ),
        (
            errors.DeduplicationOffError(names=("q",)),
            "queue 'q' has no deduplication window; set a window with set_queue_options('q', "
            "deduplication_window='5 minutes'), or send without a key",
            "queue 'q' has no deduplication window; set a window with: pgsluice queue set q "
            "'deduplication_window=5 minutes'",
        ),
        (errors.QueueNotFoundError("no queue; do that"), "no queue; do that", "no queue; do that"),
    ],
)
def test_an_error_about_a_named_object_has_advice_for_python_and_for_the_shell(
    error, text, command
):
    assert str(error) == text
    assert hint(error) == command
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.names, hint(again)) == (text, error.names, command)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_a_docstring_and_a_name_ending_in_error(kind):
    assert kind.__name__.endswith("Error")
    assert kind.__doc__


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("22023", errors.ArgumentError),
        ("23502", errors.ArgumentError),
        ("22P02", errors.PayloadError),
        ("42883", errors.NotInstalledError),
        ("42501", errors.PrivilegeError),
        ("40001", errors.RetryableError),
        ("40P01", errors.RetryableError),
        ("55P03", errors.RetryableError),
        ("57P01", errors.ConnectionFailedError),
        ("08006", errors.ConnectionFailedError),
        ("25006", errors.ReadOnlyError),
        ("53100", errors.DiskFullError),
        ("53200", errors.ServerError),
        ("53300", errors.ConnectionFailedError),
        ("42P01", errors.ServerError),
    ],
)
def test_the_sqlstate_decides_the_class_and_is_kept(sqlstate, kind):
    error = translate(psycopg.errors.lookup(sqlstate)("the server's words"))

    assert type(error) is kind
    assert error.sqlstate == sqlstate
    assert str(error).startswith("the server's words")


def test_a_canceled_statement_names_the_timeout_that_may_have_canceled_it():
    error = translate(psycopg.errors.QueryCanceled("canceling statement due to statement timeout"))

    assert "raise statement_timeout if the statement needs longer" in str(error)


def test_a_busy_group_is_worth_another_try():
    assert issubclass(errors.GroupBusyError, errors.RetryableError)


def test_a_missing_table_of_a_named_queue_is_the_missing_queue():
    error = translate(psycopg.errors.UndefinedTable("relation"), queue_name="orders")

    assert type(error) is errors.QueueNotFoundError
    assert str(error) == "queue 'orders' does not exist; create it with create('orders')"
    assert error.sqlstate == "42P01"


def error_of_server(kind, primary, hint=None):
    """Return an error of the server with its diagnostic fields."""
    fields = SimpleNamespace(
        message_primary=primary, message_detail=None, message_hint=hint, context=None
    )
    return type(kind.__name__, (kind,), {"diag": fields})(primary)


@pytest.mark.parametrize(
    "error",
    [
        error_of_server(psycopg.errors.UndefinedTable, 'relation "sluice.export" does not exist'),
        error_of_server(psycopg.errors.UndefinedTable, "Relation »pgmq.meta« existiert nicht"),
        error_of_server(
            psycopg.errors.UndefinedFunction,
            "function pgq.event_retry(bigint, bigint, text) does not exist",
            "No function matches the given name and argument types.",
        ),
        error_of_server(psycopg.errors.UndefinedObject, 'type "pgmq.metrics" does not exist'),
    ],
)
@pytest.mark.parametrize("queue_name", [None, "orders"])
def test_a_missing_part_of_the_schema_is_an_older_schema(error, queue_name):
    meaning = translate(error, queue_name=queue_name)

    assert type(meaning) is errors.NotInstalledError
    assert str(meaning) == (
        f"{error.diag.message_primary}: the schema in this database is older than this package; "
        "run `pgsluice schema upgrade`"
    )
    assert meaning.sqlstate == error.sqlstate


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("pgmq.q_orders", errors.QueueNotFoundError),
        ("public.invoice", errors.QueueNotFoundError),
        ("pgq.event_1_0", errors.QueueNotFoundError),
    ],
)
def test_a_missing_table_of_a_queue_is_not_an_older_schema(table, kind):
    missing = error_of_server(psycopg.errors.UndefinedTable, f'relation "{table}" does not exist')

    assert type(translate(missing, queue_name="orders")) is kind
    assert type(translate(missing)) is errors.ServerError


@pytest.mark.parametrize("error", [psycopg.OperationalError, psycopg_pool.PoolTimeout])
def test_an_error_of_the_connection_has_no_sqlstate_and_names_a_hint(error):
    meaning = translate(error("could not\n\tconnect"))

    assert type(meaning) is errors.ConnectionFailedError
    assert (
        str(meaning)
        == "could not connect; check that the server runs and is reachable, and connect again"
    )
    assert meaning.sqlstate is None


def test_an_error_of_the_driver_is_passed_on_in_its_own_words():
    meaning = translate(psycopg.ProgrammingError("the query has 0 placeholders"))

    assert type(meaning) is errors.ServerError
    assert str(meaning) == "the query has 0 placeholders"
