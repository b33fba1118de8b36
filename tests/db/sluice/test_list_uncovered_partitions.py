import psycopg

from support import rows


def test_each_partition_without_a_trigger_of_each_capture_is_listed(connection: psycopg.Connection):
    connection.execute(
        """create table account (id int primary key) partition by range (id);
        create table low partition of account for values from (0) to (100) partition by range (id);
        create table low_1 partition of low default;
        create table alone (id int);
        select pgq.create_queue('all'), pgq.create_queue('truncates')"""
    )
    connection.execute("select sluice.capture('account', 'all'), sluice.capture('alone', 'all')")
    options = '{"operations": ["truncate"]}'
    connection.execute("select sluice.capture('account', 'truncates', %s)", [options])
    listed = "select source_table::text, partition::text, log_name, options from sluice.list_uncovered_partitions({})"
    assert rows(connection, listed.format("") + " order by 2, 3") == []

    connection.execute(
        """create table low_2 partition of low for values from (0) to (10);
        create table top partition of account for values from (100) to (200) partition by range (id)"""
    )

    assert rows(connection, listed.format("") + " order by 2, 3") == [
        ("account", "low_2", "all", {}),
        ("account", "low_2", "truncates", {"operations": ["truncate"]}),
        ("account", "top", "all", {}),
    ]
    assert len(rows(connection, listed.format("'all'"))) == 2
