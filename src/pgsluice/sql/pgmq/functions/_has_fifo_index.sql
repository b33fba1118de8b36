create or replace function pgmq._has_fifo_index(queue_table text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    -- B-trees on an expression: PGMQ's own index of that name is a GIN index, which these queries cannot use.
    select count(*) = 2
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    join pg_am as a on a.oid = c.relam
    where c.relnamespace = 'pgmq'::regnamespace
      and c.relname in (queue_table || '_fifo_idx', queue_table || '_fifo_read_idx')
      and a.amname = 'btree'
      and i.indkey[0] = 0
      and i.indisvalid;
$$;

comment on function pgmq._has_fifo_index(text) is
    'True if create_fifo_index has been called for this table and its indexes are valid.';
revoke execute on function pgmq._has_fifo_index(text) from public;
grant execute on function pgmq._has_fifo_index(text) to sluice_admin, sluice_reader;
