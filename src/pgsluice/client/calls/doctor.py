"""Symptoms of the server that `pgsluice doctor` reports: sessions, snapshots, vacuum, connections and clocks.

Each call returns a row per symptom. They read the system catalogs, so they work without the schemas, and with those of
any release.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from pgsluice.client.calls.call import Call, record, scalar


class Symptom(NamedTuple):
    """A symptom and its remedy.

    Attributes:
        status: `warn`, `fail`, or `unknown` if this role cannot see enough.
        what: One line, with the name of the object.
        command: The command that corrects it: SQL, or one of `pgsluice`.
    """

    status: str
    what: str
    command: str


def limit_check(budget_ms: int, lock_ms: int) -> Call[str]:
    """Make this transaction read-only, limit its statements and their waits for locks, and pin its settings.

    Checks compare names as text, and read regular expressions and times: not in the form that the site has chosen.
    """
    return Call(
        "select set_config('statement_timeout', %s::text, true) || set_config('lock_timeout', %s::text, true) "
        "|| set_config('jit', 'off', true) || set_config('transaction_read_only', 'on', true) "
        "|| set_config('standard_conforming_strings', 'on', true) || set_config('quote_all_identifiers', 'off', true) "
        "|| set_config('datestyle', 'ISO', true) || set_config('intervalstyle', 'postgres', true) "
        "|| set_config('client_encoding', 'UTF8', true) "
        "|| set_config('idle_in_transaction_session_timeout', '0', true) "
        "|| case when current_setting('transaction_timeout', true) is null then '' "  # since PostgreSQL 17
        "else set_config('transaction_timeout', '0', true) end",
        (str(budget_ms), str(lock_ms)),
        scalar,
    )


def limit_fix(budget_ms: int, lock_ms: int) -> Call[str]:
    """Limit the statements of this transaction and their waits for locks."""
    return Call(
        "select set_config('statement_timeout', %s::text, true) || set_config('lock_timeout', %s::text, true)",
        (str(budget_ms), str(lock_ms)),
        scalar,
    )


def reset_read_only(role_name: str, database_name: str) -> str:
    """Return the statement that makes the transactions of a role writable by default."""
    where = f"role {_quoted(role_name)} in database {_quoted(database_name)}"
    return f"alter {where} set default_transaction_read_only = off"


def set_read_committed(role_name: str) -> str:
    """Return the statement that makes the transactions of a role read committed by default, in every database."""
    return f"alter role {_quoted(role_name)} set default_transaction_isolation = 'read committed'"


def more_connections(what: str, name: str, limit: int) -> str:
    """Return the statement that raises a limit of connections: that of the server, of a role or of this database."""
    if what == "server":
        return f"alter system set max_connections = {limit}  -- then restart the server"
    if what == "role":
        return f"alter role {_quoted(name)} connection limit {limit}"
    return f"alter database {_quoted(name)} connection limit {limit}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def server_clock() -> Call[datetime]:
    """Return the time of the server; as a number, which every DateStyle leaves as it is."""
    return Call(
        "select extract(epoch from clock_timestamp())::double precision",
        (),
        lambda rows: datetime.fromtimestamp(rows[0][0], UTC),
    )


def is_in_recovery() -> Call[bool]:
    return Call("select pg_is_in_recovery()", (), scalar)


def missing_functions(signatures: list[str]) -> Call[list[Symptom]]:
    """Return one symptom if functions of this release do not exist."""
    return Call(
        """
        select 'fail',
            format(
                'functions of this release are missing (%%s): %%s%%s', count(*),
                string_agg(f.signature, ', ' order by f.place) filter (where f.place <= 3),
                case when count(*) > 3 then ', ...' else '' end
            ),
            'pgsluice schema upgrade'
        from (
            select s.signature, row_number() over (order by s.signature) as place
            from unnest(%s::text[]) as s (signature)
            -- Before PostgreSQL 16, to_regprocedure() fails at a missing type.
            where case
                when exists (
                    select
                    from regexp_matches(
                        s.signature, '[(, ]((?:pgmq|pgq|pgq_coop|sluice)[.][a-z0-9_]+)', 'g'
                    ) as t (names)
                    where to_regtype(t.names[1]) is null
                ) then true
                else to_regprocedure(s.signature) is null
            end
        ) as f
        having count(*) > 0
        """,
        (signatures,),
        record(Symptom),
    )


def invalid_indexes() -> Call[list[Symptom]]:
    """Return the invalid indexes of our schemas, which slow down writes and serve no query."""
    return Call(
        """
        select 'warn', format('index %%s is invalid', i.indexrelid::regclass),
            format('reindex index concurrently %%s', i.indexrelid::regclass)
        from pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        where not i.indisvalid
          and c.relkind = 'i'
          and c.relnamespace in (select n.oid from pg_namespace as n where n.nspname in ('pgmq', 'pgq', 'sluice'))
          and not exists (select from pg_stat_progress_create_index as p where p.index_relid = c.oid)
        order by c.relname
        """,
        (),
        record(Symptom),
    )


def idle_in_transaction(idle_s: float) -> Call[list[Symptom]]:
    """Return the sessions of this database that have been idle in a transaction for this time."""
    return Call(
        """
        select 'warn',
            format(
                'pid %%s, role %%s%%s, idle in a transaction for %%s', a.pid, a.usename,
                case when a.application_name <> '' then format(', application %%L', a.application_name) end,
                date_trunc('second', clock_timestamp() - a.state_change)
            ),
            format('select pg_terminate_backend(%%s)', a.pid)
        from pg_stat_activity as a
        where a.datname = current_database()
          and a.state like 'idle in transaction%%'
          and a.state_change < clock_timestamp() - make_interval(secs => %s)
        union all
        select 'unknown', format('role %%s cannot see the sessions of other roles', current_user),
            format('grant pg_read_all_stats to %%I', current_user)
        where not pg_has_role(current_user, 'pg_read_all_stats', 'usage')
          and exists (
              select
              from pg_stat_activity as a
              where a.datname = current_database() and not pg_has_role(current_user, a.usesysid, 'usage')
          )
        """,
        (idle_s,),
        record(Symptom),
    )


def held_snapshots(held_s: float, age: int) -> Call[list[Symptom]]:
    """Return what holds back the xmin horizon: statements of this time, and snapshots of this age in transactions."""
    return Call(
        """
        with least as (select make_interval(secs => %s) as held, %s::integer as age)
        select 'warn',
            format(
                'pid %%s, role %%s%%s, has held a snapshot for %%s; transactions since: %%s', a.pid, a.usename,
                case when a.application_name <> '' then format(', application %%L', a.application_name) end,
                coalesce(date_trunc('second', clock_timestamp() - a.xact_start)::text, '?'), age(a.backend_xmin)
            ),
            format('select pg_terminate_backend(%%s)', a.pid)
        from pg_stat_activity as a, least
        where a.datname = current_database()
          and a.backend_xmin is not null
          and coalesce(a.backend_type, 'client backend') = 'client backend'
          and coalesce(a.state, '') not like 'idle in transaction%%'
          and a.pid <> pg_backend_pid()
          and (a.xact_start < clock_timestamp() - least.held or age(a.backend_xmin) > least.age)
        union all
        select 'warn',
            format('standby %%L holds a snapshot %%s transactions old', r.application_name, age(r.backend_xmin)),
            format('select pg_terminate_backend(%%s)', r.pid)
        from pg_stat_replication as r, least
        where age(r.backend_xmin) > least.age
        union all
        select 'warn', format('replication slot %%L holds a snapshot %%s transactions old', s.slot_name, age(s.xmin)),
            case when s.active
                then format('select pg_terminate_backend(%%s)', s.active_pid)
                else format('select pg_drop_replication_slot(%%L)', s.slot_name)
            end
        from pg_replication_slots as s, least
        where age(s.xmin) > least.age
        """,
        (held_s, age),
        record(Symptom),
    )


def prepared_transactions(prepared_s: float) -> Call[list[Symptom]]:
    """Return the prepared transactions of this database that are this old."""
    return Call(
        """
        select 'warn',
            format(
                'transaction %%L of role %%s has been prepared for %%s', p.gid, p.owner,
                date_trunc('second', clock_timestamp() - p.prepared)
            ),
            format('rollback prepared %%L', p.gid)
        from pg_prepared_xacts as p
        where p.database = current_database() and p.prepared < clock_timestamp() - make_interval(secs => %s)
        order by p.prepared
        """,
        (prepared_s,),
        record(Symptom),
    )


def inactive_slots(wal_bytes: int) -> Call[list[Symptom]]:
    """Return the inactive replication slots that keep this amount of WAL, or have lost theirs."""
    return Call(
        """
        select 'warn',
            case when s.wal_status = 'lost'
                then format('replication slot %%L is inactive and has lost its WAL', s.slot_name)
                else format(
                    'replication slot %%L is inactive and keeps %%s of WAL', s.slot_name, pg_size_pretty(kept.bytes)
                )
            end,
            format('select pg_drop_replication_slot(%%L)', s.slot_name)
        from pg_replication_slots as s
        cross join lateral (
            select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end
                - s.restart_lsn
        ) as kept (bytes)
        where not s.active and not s.temporary and (kept.bytes > %s or s.wal_status = 'lost')
        order by s.slot_name
        """,
        (wal_bytes,),
        record(Symptom),
    )


def transaction_ids() -> Call[list[Symptom]]:
    """Return one symptom if vacuum has not frozen this database's rows long after it should have."""
    return Call(
        """
        select case when ids.age > 1600000000 then 'fail' else 'warn' end,
            format(
                'the oldest %%s of database %%s is %%s ids old; autovacuum should freeze at %%s', ids.kind, d.datname,
                ids.age, ids.freeze_at
            ),
            'vacuum (freeze)'
        from pg_database as d
        cross join lateral (
            select i.kind, i.age, current_setting(i.setting)::integer
            from (
                values ('transaction id', age(d.datfrozenxid), 'autovacuum_freeze_max_age'),
                    ('multixact id', mxid_age(d.datminmxid), 'autovacuum_multixact_freeze_max_age')
            ) as i (kind, age, setting)
        ) as ids (kind, age, freeze_at)
        where d.datname = current_database()
          -- A vacuum begins at freeze_at, and takes its time.
          and ids.age > least(ids.freeze_at::bigint + greatest(ids.freeze_at / 2, 50000), 1600000000)
        order by ids.age desc
        limit 1
        """,
        (),
        record(Symptom),
    )


def autovacuum_settings() -> Call[list[Symptom]]:
    """Return the settings of the server that disable autovacuum."""
    return Call(
        """
        select 'fail', format('the server runs with %%s = off', s.name),
            format('alter system set %%I = on; select pg_reload_conf()', s.name)
        from pg_settings as s
        where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
        order by s.name
        """,
        (),
        record(Symptom),
    )


def dead_rows(row_count: int, since_s: float) -> Call[list[Symptom]]:
    """Return our tables with this number of dead rows that vacuum has not removed for this time."""
    return Call(
        """
        with least as (select %s::bigint as dead, clock_timestamp() - make_interval(secs => %s) as since)
        select 'warn',
            format(
                'table %%s has %%s dead rows and %%s live rows; last vacuum: %%s', t.relid::regclass, t.n_dead_tup,
                t.n_live_tup, coalesce(date_trunc('second', greatest(t.last_vacuum, t.last_autovacuum))::text, 'none')
            ),
            format('vacuum (analyze, skip_locked) %%s', t.relid::regclass)
        from pg_stat_user_tables as t, least
        where t.schemaname in ('pgmq', 'pgq', 'sluice')
          and t.n_dead_tup > greatest(least.dead, t.n_live_tup / 5)
          and coalesce(greatest(t.last_vacuum, t.last_autovacuum), pg_postmaster_start_time()) < least.since
          and not exists (select from pg_stat_progress_vacuum as p where p.relid = t.relid)
        order by t.n_dead_tup desc
        """,
        (row_count, since_s),
        record(Symptom),
    )


def slow_counts(running_s: float) -> Call[list[Symptom]]:
    """Return the statements that have counted rows of our tables for this time."""
    return Call(
        """
        select 'warn',
            format(
                'pid %%s, role %%s%%s, has counted rows of a queue for %%s', a.pid, a.usename,
                case when a.application_name <> '' then format(', application %%L', a.application_name) end,
                date_trunc('second', clock_timestamp() - a.query_start)
            ),
            format('select pg_cancel_backend(%%s)', a.pid)
        from pg_stat_activity as a
        where a.datname = current_database()
          and a.state = 'active'
          and a.pid <> pg_backend_pid()
          and a.application_name not like 'pgsluice%%' -- `pgsluice pipeline verify` counts on purpose
          and a.query ~* '\\mcount\\s*\\(' and a.query ~* '\\m(pgmq\\.\\W?[qa]_|pgq\\.\\W?event_)'
          and a.query_start < clock_timestamp() - make_interval(secs => %s)
        order by a.query_start
        """,
        (running_s,),
        record(Symptom),
    )


def cron_history(size_bytes: int) -> Call[list[Symptom]]:
    """Return one symptom if the history of pg_cron, which never deletes it, has this size."""
    return Call(
        """
        select 'warn', format('cron.job_run_details has %%s', pg_size_pretty(pg_total_relation_size(c.oid))),
            'truncate cron.job_run_details'
        from pg_class as c
        where c.oid = to_regclass('cron.job_run_details') and pg_total_relation_size(c.oid) > %s
        """,
        (size_bytes,),
        record(Symptom),
    )


def notification_queue(fraction: float) -> Call[list[Symptom]]:
    """Return one symptom if the server's queue of notifications is this full, with the sessions that may block it."""
    return Call(
        """
        select case when usage.fraction > 0.5 then 'fail' else 'warn' end,
            format('the queue of notifications is %%s %%%% full', round(100 * usage.fraction)),
            coalesce(format('select pg_terminate_backend(%%s)', oldest.pid), '')
        from (select pg_notification_queue_usage()::numeric as fraction) as usage
        left join lateral (
            select a.pid
            from pg_stat_activity as a
            where a.state like 'idle in transaction%%'
            order by a.xact_start
            limit 1
        ) as oldest on true
        where usage.fraction > %s
        """,
        (fraction,),
        record(Symptom),
    )
