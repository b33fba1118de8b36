"""Settings of server, database and roles that `pgsluice doctor` reports; see `doctor.Symptom`.

The connections of pgsluice pin what they need. Others inherit the settings: psql, clients of PGMQ and PgQ, pgqd,
pg_cron, and connections that applications open and pass on.
"""

from __future__ import annotations

from typing import LiteralString

from pgsluice.client.calls.call import Call, record
from pgsluice.client.calls.doctor import Symptom

# Name, severity, the least time, a pattern of values that do no harm, and the effect of others.
_EXPECTED: LiteralString = """
    expected (name, status, least, good, effect) as (
        values
            (
                'session_replication_role', 'fail', null::interval, '^origin$',
                'triggers do not fire: captured changes are lost'
            ),
            (
                'client_encoding', 'warn', null::interval, '^(utf-?8|unicode)$',
                'texts are sent and received in it'
            ),
            (
                'default_transaction_isolation', 'warn', null::interval, '^read committed$',
                'ticks, claims of share groups and limited queues, rotation and maintenance refuse it'
            ),
            (
                'default_transaction_read_only', 'warn', null::interval, '^(of|off|f|false|n|no|0)$',
                'sends, reads and acknowledgements fail'
            ),
            (
                'datestyle', 'warn', null::interval, 'iso',
                'clients cannot read times, after a read has claimed messages'
            ),
            (
                'intervalstyle', 'warn', null::interval, '^postgres$',
                'clients cannot read intervals'
            ),
            (
                'standard_conforming_strings', 'warn', null::interval, '^(on|t|true|y|yes|1)$',
                'backslashes in statements change their meaning'
            ),
            (
                'quote_all_identifiers', 'warn', null::interval, '^(of|off|f|false|n|no|0)$',
                'names that are compared as text differ'
            ),
            (
                'row_security', 'warn', null::interval, '^(on|t|true|y|yes|1)$',
                'reads of tables with policies fail'
            ),
            (
                'statement_timeout', 'warn', interval '30 s', '',
                'waiting reads, retention and maintenance are canceled'
            ),
            (
                'lock_timeout', 'warn', interval '2 s', '',
                'claims and maintenance wait that long for locks, and fail before'
            ),
            (
                'transaction_timeout', 'warn', interval '1 min', '',
                'handlers and maintenance lose their session'
            ),
            (
                'idle_in_transaction_session_timeout', 'warn', interval '30 s', '',
                'handlers that compute in a transaction lose it'
            ),
            (
                'idle_session_timeout', 'warn', interval '10 min', '',
                'listeners and pools lose their connections'
            )
    ),
"""


def odd_settings() -> Call[list[Symptom]]:
    """Return the settings of server, database, and roles with rights on our schemas that hinder their sessions.

    Of the server, those that this session has not overridden.
    """
    return Call(
        "with "  # noqa: S608 - all of it is ours
        + _EXPECTED
        + r"""
        found (place, where_set, command, name, value) as (
            select case when s.setrole = 0 then 1 else 2 end,
                concat_ws(
                    ' in ', case when s.setrole <> 0 then format('role %%I', pg_get_userbyid(s.setrole)) end,
                    case when s.setdatabase <> 0 then format('database %%I', d.datname) end
                ),
                format(
                    'alter %%s reset ', concat_ws(
                        ' in ', case when s.setrole <> 0 then format('role %%I', pg_get_userbyid(s.setrole)) end,
                        case when s.setdatabase <> 0 then format('database %%I', d.datname) end
                    )
                ),
                lower(split_part(c.setting, '=', 1)), substr(c.setting, position('=' in c.setting) + 1)
            from pg_db_role_setting as s
            join pg_database as d on d.datname = current_database()
            cross join unnest(s.setconfig) as c (setting)
            where s.setdatabase in (0, d.oid)
              and (
                  s.setrole = 0
                  or has_schema_privilege(s.setrole, to_regnamespace('pgmq'), 'usage')
                  or has_schema_privilege(s.setrole, to_regnamespace('sluice'), 'usage')
                  or pg_get_userbyid(s.setrole) = current_user
              )
            union all
            select 0, 'the server', 'alter system reset ', lower(g.name),
                case when g.unit = 'ms' then g.setting || ' ms' else g.setting end
            from pg_settings as g
            where g.source in ('configuration file', 'command line', 'environment variable')
        )
        select e.status,
            format('%%s = %%s is set for %%s: %%s', f.name, f.value, f.where_set, e.effect),
            f.command || f.name || case f.place when 0 then '; select pg_reload_conf()' else '' end
        from found as f
        join expected as e on e.name = f.name
        cross join lateral (
            select case when e.least is not null
                then (case when f.value ~ '^\s*[0-9.]+\s*$' then f.value || ' ms' else f.value end)::interval
            end
        ) as t (value)
        where case when e.least is null then f.value !~* e.good else t.value > '0' and t.value < e.least end
        order by e.status, f.place, f.where_set, f.name
        """,
        (),
        record(Symptom),
    )
