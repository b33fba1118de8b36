import psycopg
import pytest

from support import rows, value


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")


def test_the_nth_elements_are_the_nth_event_and_the_ids_come_in_that_order(connection, log):
    assert rows(
        connection,
        """select * from sluice.insert_events(
               log_name => 'changes', ev_type => array['a', 'b'], ev_data => array['1', null],
               ev_extra1 => array['e1', 'f1'], ev_extra2 => array['e2', 'f2'],
               ev_extra3 => array['e3', 'f3'], ev_extra4 => array['e4', 'f4'])""",
    ) == [(1,), (2,)]

    assert rows(
        connection,
        """select ev_id, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, ev_owner, ev_retry
           from pgq.event_1_0 order by ev_id""",
    ) == [
        (1, "a", "1", "e1", "e2", "e3", "e4", None, None),
        (2, "b", None, "f1", "f2", "f3", "f4", None, None),
    ]


def test_a_thousand_keep_their_order(connection, log):
    data = [str(number) for number in range(1000)]
    ids = rows(connection, "select * from sluice.insert_events('changes', null, %s::text[])", data)

    assert ids == [(number,) for number in range(1, 1001)]
    assert [
        row[0] for row in rows(connection, "select ev_data from pgq.event_1 order by ev_id")
    ] == data


def test_they_carry_time_and_id_of_the_transaction(connection, log):
    with connection.transaction():
        connection.execute("select sluice.insert_events('changes', null, array['1', '2'])")
        assert rows(
            connection,
            "select distinct ev_txid = pg_current_xact_id() and ev_time = now() from pgq.event_1",
        ) == [(True,)]


def test_null_arrays_leave_their_fields_null(connection, log):
    connection.execute("select sluice.insert_events('changes', null, array['1'])")

    assert rows(connection, "select ev_type, ev_data, ev_extra1, ev_extra4 from pgq.event_1") == [
        (None, "1", None, None)
    ]


def test_no_events_are_no_error(connection, log):
    assert rows(connection, "select * from sluice.insert_events('changes', null, '{}')") == []


@pytest.mark.parametrize("field", ["ev_type", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4"])
@pytest.mark.parametrize("given", [["x"], [], ["x", "y", "z"]])
def test_arrays_of_another_length_are_refused(connection, log, field, given):
    arrays = {"ev_type": None, "ev_data": ["1", "2"]} | {field: given}
    named = ", ".join(f"{name} => %({name})s::text[]" for name in arrays)
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select sluice.insert_events('changes', {named})", arrays)

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "22023",
        "arrays of events differ in length",
    )
    assert caught.value.diag.message_detail == f"ev_data has 2, {field} has {len(given)}."
    assert value(connection, "select count(*) from pgq.event_1") == 0


def test_no_array_of_data_is_refused(connection, log):
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match="ev_data is null"):
        connection.execute("select sluice.insert_events('changes', array['t'], null)")


def test_a_closed_log_refuses_them(connection, log):
    connection.execute("update pgq.queue set queue_disable_insert = true")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.insert_events('changes', null, array['1'])")
    assert caught.value.sqlstate == "PQ004"


def test_an_unknown_log_is_an_error(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.insert_events('missing', null, array['1'])")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == ("PQ001", "No such queue")


@pytest.mark.parametrize(
    ("member_of", "allowed"),
    [
        ("sluice_writer", True),
        ("pgq_writer", True),
        ("sluice_reader", False),
        ("pgq_reader", False),
    ],
)
def test_writers_may_call_it_and_readers_not(connection, log, role, member_of, allowed):
    connection.execute(f"grant {member_of} to {role}")
    connection.execute(f"set role {role}")
    call = "select * from sluice.insert_events('changes', null, array['1'])"
    if allowed:
        assert value(connection, call) == 1
    else:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(call)
    connection.execute("reset role")
