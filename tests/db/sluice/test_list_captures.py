from support import rows, value


def test_each_captured_table_with_its_log_and_options(connection, captured):
    connection.execute("select pgq.create_queue('o''ther')")
    options = (
        '{"before": false, "operations": ["update", "insert"], "ignore": ["n\\\\000 \\u00e9"]}'
    )
    connection.execute(
        """create schema "Odd one"; create table "Odd one"."T" (id int primary key, "n\\000 é" int)"""
    )
    connection.execute("""select sluice.capture('"Odd one"."T"', 'o''ther', %s)""", [options])

    assert rows(
        connection,
        "select source_table::text, log_name, options, operations, enabled from sluice.list_captures()",
    ) == [
        ("account", "changes", {}, ["delete", "insert", "truncate", "update"], True),
        (
            '"Odd one"."T"',
            "o'ther",
            {"before": False, "operations": ["update", "insert"], "ignore": ["n\\000 é"]},
            ["insert", "update"],
            True,
        ),
    ]
    assert value(connection, "select count(*) from sluice.list_captures('changes')") == 1
    assert value(connection, "select count(*) from sluice.list_captures('missing')") == 0


def test_one_disabled_trigger_shows(connection, captured):
    connection.execute("alter table account disable trigger sluice_capture_update_1")

    assert rows(connection, "select enabled from sluice.list_captures()") == [(False,)]


def test_a_partitioned_table_is_one(connection):
    connection.execute(
        """create table account (id int primary key) partition by range (id);
        create table part partition of account default; select pgq.create_queue('changes')"""
    )
    connection.execute("select sluice.capture('account', 'changes')")

    assert rows(connection, "select source_table::text from sluice.list_captures()") == [
        ("account",)
    ]


def test_a_capture_from_before_there_were_options(connection, captured):
    connection.execute(
        """create or replace trigger sluice_capture_insert_1 after insert on account
        referencing new table as new_rows for each statement execute function sluice.capture_changes('changes')"""
    )
    connection.execute("insert into account values (1, 'a')")

    assert rows(connection, "select options, enabled from sluice.list_captures()") == [({}, True)]
    assert value(connection, "select count(*) from pgq.event_1") == 1


def test_readers_see_it(connection, captured, as_member):
    assert as_member("sluice_reader", "select source_table::text from sluice.list_captures()") == [
        ("account",)
    ]
