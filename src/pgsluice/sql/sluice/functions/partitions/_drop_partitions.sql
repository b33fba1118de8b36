/*
 * Drops partitions for two reasons. Retention, as in PGMQ: a partition wholly beyond the retention is dropped, with its
 * unread messages. And of a queue, not of its archive, an empty partition before the current one is dropped, because each
 * read visits every partition. A message that a long transaction still inserts for a dropped partition goes to the default
 * partition. A partition of an exported archive is kept until every export has verified all of it.
 *
 * Calls: sluice._release_partition.
 * Locks: the parent exclusively, if a partition is dropped.
 */
create or replace function sluice._drop_partitions(
    parent regclass, queue_name text, partition_interval text, retention_interval text
)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    v_dropped_max constant integer := 10;
    v_dropped integer := 0;
    v_is_queue boolean;
    v_is_time boolean;
    v_table name;
    v_now bigint;
    v_keep_from bigint;
    v_in_use_from bigint;
    v_old record;
    v_probe text;
    v_is_empty boolean;
begin
    select c.relname, left(c.relname, 2) = 'q_' into v_table, v_is_queue from pg_class as c where c.oid = parent;
    v_is_time := (sluice._partition_key(parent)).is_time;
    v_now := sluice._partition_now(queue_name, v_is_time);
    v_in_use_from := (sluice._partition_range(v_now, v_is_time, partition_interval)).starts_at;
    v_keep_from := case
        when retention_interval is null then null
        when v_is_time
            then sluice._partition_position((clock_timestamp() - retention_interval::interval)::text, true)
        else v_now - retention_interval::bigint
    end;

    for v_old in
        select b.leaf, c.relname, coalesce(b.ends_at <= v_keep_from, false) as is_expired
        from sluice._partition_bounds(parent) as b
        join pg_class as c on c.oid = b.leaf
        where b.ends_at <= v_keep_from or v_is_queue and b.ends_at <= v_in_use_from
        order by b.starts_at
    loop
        -- By the index: a sequential scan would read all dead rows.
        v_probe := format('select not exists (select from %s as m order by m.msg_id limit 1)', v_old.leaf);
        execute v_probe into v_is_empty;
        continue when not v_is_empty and not v_old.is_expired;
        continue when not v_is_queue and not sluice._release_partition(queue_name, v_old.leaf);
        execute format('lock table only pgmq.%I in access exclusive mode', v_table);
        execute v_probe into v_is_empty;
        continue when not v_is_empty and not v_old.is_expired;
        execute format('drop table %s', v_old.leaf);
        return next format(
            '%s, %s', v_old.relname, case when v_is_empty then 'which was empty' else 'with messages whose retention was over' end
        );
        v_dropped := v_dropped + 1;
        exit when v_dropped >= v_dropped_max;
    end loop;
end;
$$;

comment on function sluice._drop_partitions(regclass, text, text, text) is
    'Drop expired partitions, and empty unused partitions of a queue; at most ten.';
revoke execute on function sluice._drop_partitions(regclass, text, text, text) from public;
grant execute on function sluice._drop_partitions(regclass, text, text, text) to sluice_admin;
