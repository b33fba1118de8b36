"""Adoption of PgQ: it keeps logs, events, ticks, positions, retries and triggers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from pgsluice import schema
from pgsluice.errors import SchemaError, SluiceError
from support import rows, value, wait_until
from support.adopt import contents, without_grants
from support.adopt import fill as fill_queues
from support.pgmq import upstream_sql
from support.pgq import drain, fill, need_extension, plpgsql_text
from support.replication import tables_without_identity


@pytest.fixture(params=["plain SQL", "extension"])
def pgq(request, empty_database, server):
    """A superuser's session in a database with PgQ, in PL/pgSQL or as the extension with C code."""
    if request.param == "extension":
        need_extension(server.version)
    with empty_database.connect() as connection:
        connection.execute(
            "create extension pgq" if request.param == "extension" else plpgsql_text()
        )
        yield connection


@pytest.mark.slow
def test_every_consumer_goes_on_where_it_stood(pgq):
    fill(pgq)
    before = rows(pgq, "select * from pgq.get_consumer_info()")
    [ticks] = rows(
        pgq, "select count(*), min(tick_id), max(tick_id) from pgq.tick where tick_queue = 1"
    )

    schema.adopt(pgq)

    columns = slice(4, 8)
    assert [row[columns] for row in rows(pgq, "select * from pgq.get_consumer_info()")] == [
        row[columns] for row in before
    ]
    assert rows(
        pgq, "select count(*), min(tick_id), max(tick_id) from pgq.tick where tick_queue = 1"
    ) == [ticks]
    assert value(pgq, "select pgq.maint_retry_events()") == 1
    pgq.execute("select pgq.ticker('orders')")
    everything = [(n, str(n), None) for n in range(1, 1001)]
    assert list(drain(pgq, "orders", "behind")) == everything
    assert list(drain(pgq, "orders", "done")) == everything[600:]
    assert list(drain(pgq, "orders", "open")) == [*everything, (2, "2", 1)]
    assert value(pgq, "select count(*) from pgq.retry_queue") == 1


@pytest.mark.slow
def test_an_adopted_log_has_a_replica_identity(pgq):
    fill(pgq)

    schema.adopt(pgq)

    assert tables_without_identity(pgq) == []


@pytest.mark.slow
def test_the_catalog_is_afterwards_that_of_an_installation(pgq, connection):
    fill(pgq)

    schema.adopt(pgq)

    assert schema.verify(pgq) == ()
    assert without_grants(schema.fingerprint(pgq)) == without_grants(schema.fingerprint(connection))
    ledger = "select version, checksum, breaking from sluice.migration order by 1"
    assert rows(pgq, ledger) == rows(connection, ledger)


@pytest.mark.slow
def test_an_adopted_log_works_like_a_new_one(pgq):
    fill(pgq)

    schema.adopt(pgq)

    assert value(pgq, "select pgq.create_queue('later')") == 1
    shape = """select regexp_replace(c.relname, '[0-9]+', 'N'), c.relkind, c.relpersistence,
            array(select a.attname || ' ' || format_type(a.atttypid, null) || ' ' || a.attnotnull || ' '
                || coalesce(regexp_replace(pg_get_expr(d.adbin, d.adrelid), '_[0-9]+_', '_N_'), '')
                from pg_attribute as a left join pg_attrdef as d on d.adrelid = c.oid and d.adnum = a.attnum
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
            array(select regexp_replace(pg_get_indexdef(i.indexrelid), '_[0-9]+', '_N', 'g')
                from pg_index as i where i.indrelid = c.oid order by 1)
        from pg_class as c where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and c.relname ~ %s order by 1"""
    adopted = rows(pgq, shape, "^(event|tick)_1(_|$)")
    new = rows(pgq, shape, "^(event|tick)_3(_|$)")
    assert adopted == new
    assert len(new) == 8
    assert value(pgq, "select pgq.insert_event('orders', 't', 'after')") == 1001
    pgq.execute("select pgq.ticker('orders')")
    assert list(drain(pgq, "orders", "done"))[-1] == (1001, "after", None)


@pytest.mark.slow
def test_triggers_of_users_stay_and_write_as_before(pgq):
    fill(pgq)
    pgq.execute("create table public.stock (id integer primary key, amount numeric, note text)")
    for kind in ("jsontriga", "logutriga", "sqltriga"):
        pgq.execute(
            f"""create trigger by_{kind} after insert or update or delete on public.stock
                for each row execute function pgq.{kind}('empty')"""
        )
    pgq.execute("select pgq.register_consumer('empty', 'judge')")
    change = """insert into public.stock values (1, 1.50, null); update public.stock set note = 'a b' where id = 1;
                delete from public.stock"""
    pgq.execute(change)
    events = """select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_2 where ev_id > %s order by ev_id"""
    before = rows(pgq, events, 0)

    schema.adopt(pgq)

    pgq.execute(change)
    assert len(before) == 9
    assert rows(pgq, events, 9) == before


@pytest.mark.slow
def test_the_plan_says_every_step_and_changes_nothing(pgq):
    fill(pgq)
    pgq.execute("create function pgq.mine() returns integer language sql as 'select 1'")
    before = schema.fingerprint(pgq)

    plan = schema.plan_adoption(pgq)

    assert plan.objections == ()
    assert schema.fingerprint(pgq) == before
    steps = "\n".join(plan.steps)
    assert "widen transaction ids to xid8, rewriting the event tables of logs: 2, " in steps
    assert "keep functions that are not PgQ's: 1 (pgq.mine())" in steps
    assert "create schemas pgmq, pgq_coop and sluice" in steps
    assert schema.adopt(pgq) == plan.steps
    assert value(pgq, "select pgq.mine()") == 1


@pytest.mark.slow
def test_adopting_twice_does_nothing(pgq):
    fill(pgq)
    schema.adopt(pgq)
    before = schema.fingerprint(pgq)

    assert schema.adopt(pgq) == ()

    assert schema.fingerprint(pgq) == before


def test_a_view_on_what_changes_its_shape_is_refused_and_named(pgq):
    fill(pgq)
    pgq.execute("create view public.lag as select * from pgq.subscription")
    before = schema.fingerprint(pgq)

    with pytest.raises(SchemaError, match="view .*lag depends on pgq.subscription") as caught:
        schema.adopt(pgq)

    assert "drop it, adopt, and create it again" in str(caught.value)
    assert schema.fingerprint(pgq) == before


@pytest.mark.parametrize("name", ["sluice", "pgq_coop"])
def test_a_schema_in_the_way_of_ours_is_refused(pgq, name):
    pgq.execute(f"create schema {name}")

    with pytest.raises(SchemaError, match=f"schema {name} exists and was not created by pgsluice"):
        schema.adopt(pgq)


def test_role_without_ownership_of_pgq_is_refused_naming_the_owner(empty_database, pgq, role):
    with (
        empty_database.connect(user=role) as other,
        pytest.raises(SchemaError, match=f"whose rights {role} does not have; adopt as"),
    ):
        schema.adopt(other)


@pytest.mark.slow
def test_pgmq_and_pgq_in_one_database_are_adopted_together(pgq):
    pgq.execute(upstream_sql())
    fill_queues(pgq)
    fill(pgq)
    messages = contents(pgq)

    schema.adopt(pgq)

    assert schema.verify(pgq) == ()
    assert contents(pgq) == messages
    pgq.execute("select pgq.ticker('orders')")
    assert len(list(drain(pgq, "orders", "behind"))) == 1000


def test_an_adoption_that_fails_midway_changes_nothing(pgq):
    fill(pgq)
    before = schema.fingerprint(pgq)
    # A constraint that fails when the ticks are copied.
    pgq.execute("alter table pgq.tick add constraint odd check (tick_id < 0) not valid")

    with pytest.raises(SluiceError):
        schema.adopt(pgq)

    pgq.execute("alter table pgq.tick drop constraint odd")
    assert schema.fingerprint(pgq) == before


@pytest.mark.slow
def test_clients_wait_and_go_on_and_no_event_is_lost_or_delivered_twice(empty_database, pgq):
    fill(pgq)
    pgq.execute("select pgq.register_consumer('empty', 'judge')")
    stop = threading.Event()
    sent: list[int] = []
    failures: list[BaseException] = []

    def produce() -> None:
        try:
            with empty_database.connect() as session:
                session.prepare_threshold = 1
                while not stop.is_set():
                    sent.append(value(session, "select pgq.insert_event('empty', 't', %s)", "x"))
        except BaseException as error:
            failures.append(error)

    interrupted: list[str] = []

    def repeated(name: str, action: Callable[[psycopg.Connection], None]) -> None:
        """Repeat the action; a call that waits inside PgQ's function may fail later."""
        try:
            with empty_database.connect() as session:
                while not stop.is_set():
                    try:
                        action(session)
                    except psycopg.errors.UndefinedFunction:
                        interrupted.append(name)
        except BaseException as error:
            failures.append(error)

    def tick(session: psycopg.Connection) -> None:
        session.execute("select pgq.ticker()")

    received: list[int] = []

    def consume(session: psycopg.Connection) -> None:
        with session.transaction():
            batch = value(session, "select pgq.next_batch('empty', 'judge')")
            if batch is None:
                return
            events = rows(session, "select ev_id from pgq.get_batch_events(%s)", batch)
            assert value(session, "select pgq.finish_batch(%s)", batch) == 1
        received.extend(ev_id for (ev_id,) in events)

    threads = [
        threading.Thread(target=produce),
        threading.Thread(target=produce),
        threading.Thread(target=repeated, args=("tick", tick)),
        threading.Thread(target=repeated, args=("consume", consume)),
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(received) > 50 or failures, "events before the adoption")
    assert failures == []

    schema.adopt(pgq)

    before = len(received)
    wait_until(lambda: len(received) > before + 50 or failures, "events after the adoption")
    stop.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert len(interrupted) == len(set(interrupted))
    # An event that the last tick counted may have committed after it, so tick without the limits.
    pgq.execute("update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'")
    pgq.execute("select pgq.ticker('empty')")
    received.extend(row[0] for row in drain(pgq, "empty", "judge"))
    assert sorted(received) == sorted(sent)
