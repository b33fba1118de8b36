-- For what is late because no maintenance ran: it names the missing leader, or the one that does not do its work.
create or replace function sluice._explain_leader()
returns table (at timestamptz, fact text, detail jsonb)
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
    select null::timestamptz,
        case
            when leader.pid is null then 'No process leads the maintenance of this database; start one, unless pg_cron or a ticker of your own runs it'
            else format('Maintenance is led by %s', sluice._session(leader.pid))
        end,
        jsonb_build_object(
            'cause', case when leader.pid is null then 'no maintenance' else 'maintenance behind' end,
            'pid', leader.pid,
            'command', case when leader.pid is null then 'pgsluice maintain' end
        )
    from sluice._leader() as leader (pid);
$$;

comment on function sluice._explain_leader() is
    'Return a sentence with the process that leads maintenance, or that none does.';
revoke execute on function sluice._explain_leader() from public;
grant execute on function sluice._explain_leader() to pgq_admin, sluice_admin;
