create or replace function sluice._drop_limit_indexes(i_limits sluice.queue_settings)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_index_name text;
begin
    for v_index_name in
        select c.relname
        from pg_index as x
        join pg_class as c on c.oid = x.indexrelid
        where x.indrelid = to_regclass(format('pgmq.%I', i_limits.queue_table))
          and substr(c.relname, length(i_limits.queue_table) + 1)
              ~ '^(_claimed|_key|_key_claim|_key_vt|_waiting|_level[2-9]|_level[2-9]_vt)_idx$'
          and c.relname not in (select i.index_name from sluice._limit_indexes(i_limits) as i)
    loop
        execute format('drop index pgmq.%I', v_index_name);
    end loop;
end;
$$;

comment on function sluice._drop_limit_indexes(sluice.queue_settings) is
    'Drop the indexes of sluice._limit_indexes that a queue does not need with these limits.';
revoke execute on function sluice._drop_limit_indexes(sluice.queue_settings) from public;
grant execute on function sluice._drop_limit_indexes(sluice.queue_settings) to sluice_admin;
