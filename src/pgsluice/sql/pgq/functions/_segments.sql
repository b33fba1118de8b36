-- From the catalog: queue_ntables may be changed by hand.
create or replace function pgq._segments(i_queue_id integer)
returns setof integer
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select substring(c.relname from '[0-9]+$')::integer
    from pg_inherits as i
    join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = format('pgq.event_%s', i_queue_id)::regclass
      and c.relname ~ format('^event_%s_[0-9]+$', i_queue_id)
    order by 1;
$$;

comment on function pgq._segments(integer) is
    'List the numbers of a log''s segments.';
revoke execute on function pgq._segments(integer) from public;
grant execute on function pgq._segments(integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
