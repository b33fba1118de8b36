/*
 * i_source is as in sluice.worker: queue Q; log L group G. Its second word is what --queues takes. Consumers that call the
 * read functions themselves are not registered.
 */
create or replace function sluice._explain_workers(i_source text)
returns table (at timestamptz, fact text, detail jsonb)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select max(w.reported_at),
        case
            when count(*) = 0 then format('No live worker is registered for %s; consumers without a worker are not registered', i_source)
            else format('Nothing in the database holds it back, and %s registered for %s; the last report was made', sluice._counted(count(*), 'live worker'), i_source)
        end,
        jsonb_build_object(
            'cause', case when count(*) = 0 then 'no worker' else 'none' end, 'workers', count(*),
            'command', case when count(*) = 0 then format('pgsluice worker run MODULE:APP --queues %s', sluice._shell_word(split_part(i_source, ' ', 2))) end
        )
    from sluice.list_workers() as w
    where w.is_live
      and lower(i_source) = any (array(select lower(s.source) from unnest(w.sources) as s (source)));
$$;

comment on function sluice._explain_workers(text) is
    'Return a sentence with the number of live workers of a queue or share group.';
revoke execute on function sluice._explain_workers(text) from public;
grant execute on function sluice._explain_workers(text) to pgq_admin, sluice_admin;
