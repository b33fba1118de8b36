"""sluice.purge_dead_letters."""

import psycopg
import pytest

from support import value
from support.dead_letters import make_many, named
from support.log import error_of


@pytest.fixture
def aged(letters):
    """Dead letters, each a day older than the previous one."""
    letters.connection.execute(
        "update sluice.dead_letter set dead_at = now() - make_interval(days => dead_letter_id::integer)"
    )
    return letters


def test_the_oldest_go_first_in_steps(aged):
    step = ", interval '2.5 days', qty => 3"

    assert aged.find("purge_dead_letters", step) == [3]
    assert aged.left() == [1, 2, 3, 7]
    assert aged.find("purge_dead_letters", step) == [1]
    assert aged.left() == [1, 2, 7]
    assert aged.find("purge_dead_letters", step) == [0]


def test_purge_without_age_removes_all_of_one_queue_or_group(letters):
    assert letters.find("purge_dead_letters", ", older_than => '0'") == [6]
    assert letters.left() == [7]


def test_purge_by_ids_removes_only_those_of_the_queue_or_group(letters):
    assert letters.find("purge_dead_letters", ", dead_letter_ids => '{1, 3, 7, 77}'") == [2]
    assert letters.left() == [2, 4, 5, 6, 7]


def test_letters_locked_by_a_redrive_are_skipped(database, letters):
    with database.connect(autocommit=False) as session:
        session.execute(
            f"select sluice.redrive({letters.of}, '{{\"dead_letter_ids\": [1, 2]}}')".encode()
        )
        letters.connection.execute("set lock_timeout = '10s'")

        assert letters.find("purge_dead_letters", ", '0'") == [4]
        session.rollback()

    assert letters.left() == [1, 2, 7]


@pytest.mark.parametrize(("arguments", "code"), [("", "22004"), (", '0', '{1}'", "22023")])
def test_neither_or_both_is_an_error(letters, arguments, code):
    wanted = (code, "it is not clear which dead letters to delete")
    query = f"select sluice.purge_dead_letters({letters.of}{arguments})"

    assert error_of(letters.connection, query) == wanted
    assert len(letters.left()) == 7


@pytest.mark.parametrize("is_group", [False, True], ids=["queue", "share group"])
def test_a_step_costs_what_it_deletes(connection, buffers, is_group):
    make_many(connection, 50_000, 1, is_group=is_group)
    connection.execute("analyze sluice.dead_letter")

    purge = f"select sluice.purge_dead_letters({named('q0', is_group=is_group)}"
    assert buffers(f"{purge}, '0', qty => 10)") < 200
    assert buffers(f"{purge}, '1 day')") < 50
    assert buffers(f"{purge}, dead_letter_ids => '{{40000, 40001}}')") < 50


def test_only_an_admin_purges_without_being_superuser(letters, as_member):
    query = f"select sluice.purge_dead_letters({letters.of}, '0')"

    assert as_member("sluice_admin", query) == [(6,)]
    if letters.is_group:
        assert as_member("pgq_admin", query) == [(6,)]
    else:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member("pgq_admin", query)
    for member_of in ("pgq_reader", "sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
    assert value(letters.connection, "select count(*) from sluice.dead_letter") == 7
