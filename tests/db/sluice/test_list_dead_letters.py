"""sluice.list_dead_letters, with _dead_letter_filter, _dead_letter_filter_sql and _dead_letter_table."""

import psycopg
import pytest

from support import rows, value
from support.dead_letters import FILTERS, filter_argument, make_many, named
from support.log import error_of


def test_a_dead_event_has_all_its_fields(dead):
    ((event,),) = rows(
        dead,
        "select to_jsonb(e.letter) from sluice.list_dead_letters('events', 'g', qty => 1) as e",
    )

    assert isinstance(event.pop("claim_id"), int)
    assert isinstance(event.pop("dead_at"), str)
    assert isinstance(event.pop("enqueued_at"), str)
    assert event.pop("ev_txid")
    assert {name: field for name, field in event.items() if field is not None} == {
        "dead_letter_id": 1, "queue_name": "events", "consumer_name": "g", "msg_id": 1, "ev_type": "odd", "ev_data": "1",
        "ev_extra1": "x", "ev_extra4": "z", "redriven": 0, "attempts": 1, "read_ct": 1, "reason": "bad", "error": "trace",
    }  # fmt: skip


def test_a_dead_message_has_all_its_fields(orders):
    ((letter,),) = rows(
        orders, "select to_jsonb(d.letter) from sluice.list_dead_letters('orders') as d"
    )

    for time in ("dead_at", "enqueued_at", "last_read_at"):
        assert isinstance(letter.pop(time), str)
    assert {name: field for name, field in letter.items() if field is not None} == {
        "dead_letter_id": 1, "queue_name": "orders", "msg_id": 5, "message": {"n": 5, "odd": True}, "headers": {"h": 2},
        "redriven": 0, "read_ct": 1, "reason": "bad shape", "error": "trace",
    }  # fmt: skip


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_dead_letters_are_browsed_by_a_filter(letters, case):
    found = letters.find("list_dead_letters", filter_argument(case[0]))

    assert found == letters.wanted(case)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"order": 41}', [1, 2]),
        ('[{"order": 41}]', [3]),
        ('{"order": 4}', []),
        ("ANN@example", [4]),
        ("k-5", [5]),
        ('"quoted"', [6]),
    ],
)
def test_text_is_found_in_every_text_of_an_event(dead, text, wanted):
    for number, (column, data) in enumerate(
        (
            ("ev_data", '{"order": 41, "broken": false}'),
            ("ev_extra2", '{"order": 41}'),
            ("ev_extra4", '[{"order": 41}, 7]'),
            ("ev_data", "to=Ann@Example.org&order=41"),
            ("key", "k-5"),
            ("ev_extra1", '"quoted" {"order": 41'),
        ),
        1,
    ):
        dead.execute(
            "insert into sluice.dead_letter (dead_letter_id, queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason, "
            f"{column}) values (%s, 'events', 'other', 1000, 1, now(), 'r', %s)",
            (number + 100, data),
        )
    found = rows(
        dead,
        "select (l.letter).dead_letter_id - 100 from sluice.list_dead_letters('events', 'other', jsonb_build_object('matching', %s::text)) as l",
        text,
    )

    assert [n for (n,) in found] == wanted


def test_pages_continue_after_an_id(letters):
    assert letters.find("list_dead_letters", ", qty => 2") == [1, 2]
    pages = ", '{}', after_dead_letter_id => 2, qty => 2"
    assert letters.find("list_dead_letters", pages) == [3, 4]
    assert letters.find("list_dead_letters", ", '{}', 6") == []


def test_other_queues_and_groups_have_their_own(letters):
    ids = "select (letter).dead_letter_id from sluice.list_dead_letters"
    assert rows(letters.connection, f"{ids}({letters.other})") == [(7,)]
    for missing in ("'missing'", "'orders', 'g'", "'events'", "'EVENTS', 'g'", "'events', 'G'"):
        assert rows(letters.connection, f"{ids}({missing})") == []


def test_dead_letters_of_a_dropped_queue_group_and_log_are_kept(letters):
    letters.connection.execute(
        "select pgmq.drop_queue('orders'), sluice.drop_group('events', 'g'), pgq.drop_queue('events', true)"
    )

    assert letters.find("list_dead_letters") == [1, 2, 3, 4, 5, 6]


FUNCTIONS = (
    "list_dead_letters",
    "count_dead_letters",
    "redrive",
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_unknown_filter_is_refused_with_the_list(letters, function):
    query = f'select sluice.{function}({letters.of}, \'{{"zone": 1, "reason": "r", "by": 1}}\')'

    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        letters.connection.execute(query)

    assert caught.value.diag.message_primary == "dead letters have no filter 'by'"
    assert caught.value.diag.message_hint == (
        "there are: dead_letter_ids, msg_ids, message, headers, ev_type, reason, error_type, error, matching, since, until"
    )


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("chosen", ["[]", '"reason"', "null", "1"])
def test_a_filter_that_is_no_object_is_refused(letters, function, chosen):
    query = f"select sluice.{function}({letters.of}, '{chosen}')"

    assert error_of(letters.connection, query) == (
        "22023",
        f"the filter of dead letters is {chosen}",
    )
    query = f"select sluice.{function}({letters.of}, null)"
    assert error_of(letters.connection, query) == ("22023", "the filter of dead letters is null")


@pytest.mark.parametrize(
    "chosen", ['{"msg_ids": ["a"]}', '{"dead_letter_ids": 1}', '{"since": "soon"}']
)
def test_a_value_of_another_type_is_refused(letters, chosen):
    query = f"select sluice.list_dead_letters({letters.of}, '{chosen}')"

    assert error_of(letters.connection, query)[0] in ("22P02", "22007", "22023")


def test_members_that_are_null_select_all(letters):
    chosen = ', \'{"reason": null, "msg_ids": null, "message": null, "until": null}\''

    assert letters.find("list_dead_letters", chosen) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("is_group", [False, True], ids=["queue", "share group"])
def test_a_page_of_many_dead_letters_costs_a_page(connection, buffers, is_group, analyzed):
    make_many(connection, 100_000, 10, is_group=is_group)
    if analyzed:
        connection.execute("analyze sluice.dead_letter")

    of = named("q7", is_group=is_group)
    assert buffers(f"select * from sluice.list_dead_letters({of}, '{{}}', 50000, 100)") < 200


def test_readers_of_logs_see_dead_events_only_and_writers_and_monitors_nothing(letters, as_member):
    error = '{"error": "row # is locked"}'
    for query in (
        f"select * from sluice.list_dead_letters({letters.of}, '{error}')",
        f"select sluice.count_dead_letters({letters.of})",
        f"select * from sluice.group_dead_letters({letters.of})",
    ):
        for member_of in ("sluice_admin", "sluice_reader"):
            assert as_member(member_of, query)
        for member_of in ("pgq_admin", "pgq_reader"):
            if letters.is_group:
                assert as_member(member_of, query)
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="message"):
                    as_member(member_of, query)
        for member_of in ("pgq_writer", "sluice_writer", "sluice_monitor"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)


def test_a_role_of_logs_reads_the_table_of_events_only(letters, as_member):
    count = "select count(*) from sluice"
    events = 6 + 1 if letters.is_group else 0

    for member_of in ("pgq_reader", "pgq_admin"):
        assert as_member(member_of, f"{count}.dead_letter_event") == [(events,)]
        for table in ("dead_letter_message", "dead_letter"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, f"{count}.{table}")
    for member_of in ("sluice_reader", "sluice_admin"):
        assert as_member(member_of, f"{count}.dead_letter") == [(7,)]
    table = "select sluice._dead_letter_table({})"
    assert value(letters.connection, table.format("null")) == "dead_letter_message"
    assert value(letters.connection, table.format("'g'")) == "dead_letter_event"
