/*
 * i_source is as in sluice.process: queue Q; log L group G. Its second word is what --queues takes. Consumers that call the
 * read functions themselves are not registered.
 */
create or replace function sluice._explain_workers(i_source text)
returns table (at timestamptz, cause text, detail jsonb)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select max(w.reported_at), case when count(*) = 0 then 'no worker' else 'none' end,
        jsonb_build_object('source', i_source, 'workers', count(*))
    from sluice.list_workers() as w
    where w.is_live
      and lower(i_source) = any (array(select lower(s.source) from unnest(w.sources) as s (source)));
$$;

comment on function sluice._explain_workers(text) is
    'Return the number of live workers of a queue or share group.';
revoke execute on function sluice._explain_workers(text) from public;
grant execute on function sluice._explain_workers(text) to pgq_admin, sluice_admin;
