"""Creating, dropping and configuring queues; grants and storage."""

from __future__ import annotations

from compat.pgq.cases import lines
from compat.pgq.cases.marking import BATCH, CONSUMER, QUEUE, Differs, Scenarios

LONG = "n" * 300
# 100 is the default fillfactor.
RELATIONS = """
select c.relname, c.relkind::text, array_remove(c.reloptions, 'fillfactor=100') as options, coalesce(t.reloptions, '{}') as toast_options,
    (select array_agg(i.inhparent::regclass::text) from pg_inherits as i where i.inhrelid = c.oid) as parents
from pg_class as c left join pg_class as t on t.oid = c.reltoastrelid
where c.relnamespace = 'pgq'::regnamespace and c.relname ~ '^event_[0-9]' order by c.relname
"""
COLUMNS = """
select a.attrelid::regclass::text, a.attname, a.attnotnull, a.atthasdef
from pg_attribute as a
where a.attrelid in ('pgq.event_1'::regclass, 'pgq.event_1_0'::regclass, 'pgq.event_1_2'::regclass) and a.attnum > 0
order by a.attrelid::regclass::text, a.attnum
"""
CONFIG = (
    "select queue_ticker_max_count, queue_ticker_max_lag, queue_ticker_idle_period, queue_ticker_paused, "
    "queue_rotation_period, queue_external_ticker from pgq.queue"
)
NAMES = (
    "",
    " ",
    "with space",
    "dot.ted",
    'quo"ted',
    "semi;colon--",
    "per%cent",
    "ümläut_日本",
    "UPPER",
    "upper",
    "back\\slash",
)

SCENARIOS: Scenarios = {
    "create_queue": [
        "select * from pgq.create_queue('plain')",
        "select * from pgq.create_queue('plain')",
        "select * from pgq.create_queue(i_queue_name => 'named')",
        "select pgq.create_queue('value') as made",
        "select * from pgq.create_queue(null)",
        "select * from pgq.create_queue('a''b')",
        "select * from pgq.create_queue(E'new\\nline')",
        *(f"select * from pgq.create_queue('{name}')" for name in NAMES),
        f"select * from pgq.create_queue('{LONG}')",
        f"select * from pgq.create_queue('{LONG}')",
        "select pgq.insert_event(q.queue_name, 't', q.queue_name) from pgq.queue as q order by q.queue_id",
        "select pgq.register_consumer(q.queue_name, q.queue_name) from pgq.queue as q order by q.queue_id",
    ],
    "create_queue: what it makes": [
        "select * from pgq.create_queue('q')",
        Differs(RELATIONS, lines.PARENT_INDEX),
        Differs(COLUMNS, lines.EVENT_TIME),
        "select indexdef from pg_indexes where schemaname = 'pgq' and tablename ~ '^event_1_[0-9]$' order by 1",
        "insert into pgq.event_1_0 (ev_time, ev_data) values (now(), 'by hand') returning ev_id, ev_time, ev_data",
        Differs("select * from pgq.ticker('q')", lines.FIRST_EVENT),
    ],
    "create_queue: in a transaction": [
        "begin",
        "select * from pgq.create_queue('gone')",
        "select * from pgq.insert_event('gone', 't', 'd')",
        "rollback",
        "select * from pgq.create_queue('gone')",
        "begin",
        "select * from pgq.create_queue('kept')",
        "select * from pgq.insert_event('kept', 't', 'd')",
        "select * from pgq.register_consumer('kept', 'c')",
        "commit",
        "select * from pgq.get_consumer_info()",
    ],
    "drop_queue": [
        "select * from pgq.drop_queue('nope')",
        "select * from pgq.drop_queue('nope', true)",
        "select * from pgq.drop_queue('nope', false)",
        "select * from pgq.drop_queue(null)",
        "select * from pgq.drop_queue(null, true)",
        "select * from pgq.drop_queue('')",
        *QUEUE,
        "select * from pgq.drop_queue('q')",
        RELATIONS,
        "select * from pgq.drop_queue('q')",
        "select * from pgq.create_queue('q')",
        "select * from pgq.drop_queue(x_queue_name => 'q')",
        "select * from pgq.create_queue('q')",
        "select * from pgq.drop_queue(x_queue_name => 'q', x_force => false)",
        "select * from pgq.create_queue('quo\"ted')",
        "select * from pgq.drop_queue('quo\"ted')",
        RELATIONS,
    ],
    "drop_queue: with consumers": [
        *BATCH,
        "select * from pgq.register_consumer('q', 'other')",
        "select * from pgq.event_retry(1, 2, 0)",
        "select * from pgq.drop_queue('q')",
        "select * from pgq.drop_queue('q', false)",
        "select * from pgq.drop_queue('q', null)",
        "select * from pgq.drop_queue('q', true)",
        "select * from pgq.create_queue('q')",
        "select * from pgq.register_consumer('q', 'c')",
        "select * from pgq.next_batch('q', 'c')",
    ],
    "set_queue_config": [
        "select * from pgq.create_queue('q')",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', '10')",
        "select * from pgq.set_queue_config('q', 'ticker_max_lag', '2 minutes')",
        "select * from pgq.set_queue_config('q', 'ticker_idle_period', '1 hour')",
        "select * from pgq.set_queue_config('q', 'ticker_paused', 'true')",
        "select * from pgq.set_queue_config('q', 'rotation_period', '3 days')",
        "select * from pgq.set_queue_config('q', 'external_ticker', 'on')",
        CONFIG,
        "select * from pgq.set_queue_config(x_queue_name => 'q', x_param_name => 'ticker_paused', x_param_value => 'f')",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', '0')",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', '-1')",
        "select * from pgq.set_queue_config('q', 'ticker_max_lag', '-1 second')",
        "select * from pgq.set_queue_config('q', 'ticker_max_lag', '5')",
        "select * from pgq.set_queue_config('q', 'rotation_period', '0')",
        CONFIG,
    ],
    "set_queue_config: refused": [
        "select * from pgq.create_queue('q')",
        "select * from pgq.set_queue_config('nope', 'ticker_max_count', '10')",
        "select * from pgq.set_queue_config('nope', 'nope', '10')",
        "select * from pgq.set_queue_config('q', 'nope', '10')",
        "select * from pgq.set_queue_config('q', 'ntables', '4')",
        "select * from pgq.set_queue_config('q', 'queue_ticker_max_count', '10')",
        "select * from pgq.set_queue_config('q', 'TICKER_MAX_COUNT', '10')",
        "select * from pgq.set_queue_config('q', '', '10')",
        "select * from pgq.set_queue_config('q', 'per%cent', '10')",
        "select * from pgq.set_queue_config(null, 'ticker_max_count', '10')",
        "select * from pgq.set_queue_config('q', null, '10')",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', null)",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', 'many')",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', '99999999999')",
        "select * from pgq.set_queue_config('q', 'ticker_max_count', '1.5')",
        "select * from pgq.set_queue_config('q', 'ticker_paused', 'maybe')",
        "select * from pgq.set_queue_config('q', 'ticker_max_lag', 'soon')",
        "select * from pgq.set_queue_config('q', 'ticker_max_lag', '')",
        "select * from pgq.set_queue_config('q', 'rotation_period', '''; drop table pgq.tick --')",
        CONFIG,
    ],
    "settings by hand": [
        *CONSUMER,
        "update pgq.queue set queue_ntables = 3, queue_extra_maint = array['a.b', 'c.d']",
        "update pgq.queue set queue_disable_insert = true",
        "select * from pgq.insert_event('q', 't', 'd')",
        "update pgq.queue set queue_disable_insert = false, queue_rotation_period = null",
        Differs("select * from pgq.maint_operations()", lines.OPERATIONS),
        "update pgq.subscription set sub_active = now() - interval '1 hour' where sub_id = 1",
        "select sub_active from pgq.subscription",
        "select * from pgq.get_consumer_info()",
    ],
    "grant_perms and tune_storage": [
        *QUEUE,
        "select * from pgq.grant_perms('q')",
        "select * from pgq.grant_perms(x_queue_name => 'q')",
        "select * from pgq.grant_perms('nope')",
        "select * from pgq.grant_perms(null)",
        "select * from pgq.tune_storage('q')",
        "select * from pgq.tune_storage(i_queue_name => 'q')",
        "select * from pgq.tune_storage('nope')",
        "select * from pgq.tune_storage(null)",
        "alter table pgq.event_1_0 reset (fillfactor)",
        "select * from pgq.tune_storage('q')",
        Differs(RELATIONS, lines.PARENT_INDEX),
        "revoke all on pgq.event_1, pgq.event_1_0 from pgq_reader",
        "select * from pgq.grant_perms('q')",
        "select has_table_privilege('pgq_reader', 'pgq.event_1', 'select'), "
        "has_table_privilege('pgq_reader', 'pgq.event_1_0', 'select')",
    ],
    "_grant_perms_from": [
        "create schema other",
        "create table other.copy (like pgq.event_template)",
        "select * from pgq._grant_perms_from('pgq', 'event_template', 'other', 'copy')",
        Differs(
            "select role, privilege, has_table_privilege(role, 'other.copy', privilege) "
            "from unnest(array['pgq_reader', 'pgq_writer', 'pgq_admin']) as role, "
            "unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as privilege order by 1, 2",
            lines.GRANTS,
        ),
        "select * from pgq._grant_perms_from('pgq', 'nope', 'other', 'copy')",
        "select * from pgq._grant_perms_from('pgq', 'event_template', 'other', 'nope')",
        "select * from pgq._grant_perms_from(null, 'event_template', 'other', 'copy')",
        "select * from pgq._grant_perms_from(src_schema => 'pgq', src_table => 'queue', dst_schema => 'other', "
        "dst_table => 'copy')",
    ],
    "upgrade_schema": [
        *QUEUE,
        "select * from pgq.upgrade_schema()",
        "select * from pgq.upgrade_schema()",
    ],
    "names and sequences": [
        "select * from pgq.quote_fqname('plain')",
        "select * from pgq.quote_fqname('a.b')",
        "select * from pgq.quote_fqname('a.b.c')",
        "select * from pgq.quote_fqname('Odd.Na\"me')",
        "select * from pgq.quote_fqname(i_name => '')",
        "select * from pgq.quote_fqname('.')",
        "select * from pgq.quote_fqname('select.table')",
        "select * from pgq.quote_fqname(null)",
        "create sequence public.counter",
        'create sequence public."Odd counter"',
        "select * from pgq.seq_getval('counter')",
        "select * from pgq.seq_getval('public.counter')",
        "select * from pgq.seq_getval(i_seq_name => 'public.Odd counter')",
        "select * from pgq.seq_getval('nope')",
        "select * from pgq.seq_getval('nope.nope')",
        "select * from pgq.seq_getval('')",
        "select * from pgq.seq_getval(null)",
        "select * from pgq.seq_setval('counter', 10)",
        "select * from pgq.seq_setval('public.counter', 5)",
        "select * from pgq.seq_setval(i_seq_name => 'counter', i_new_value => 11)",
        "select * from pgq.seq_setval('counter', null)",
        "select * from pgq.seq_setval(null, 1)",
        "select * from pgq.seq_setval('counter', 0)",
        "select * from pgq.seq_setval('counter', -5)",
        "select * from pgq.seq_setval('public.Odd counter', 7)",
        "select * from pgq.seq_setval('nope', 7)",
        "select nextval('counter')",
        *QUEUE,
        "select * from pgq.seq_getval('pgq.event_1_id_seq')",
        "select * from pgq.seq_getval('pgq.event_1_tick_seq')",
        "select * from pgq.seq_setval('pgq.event_1_id_seq', 100)",
        "select * from pgq.insert_event('q', 't', 'd')",
    ],
}
