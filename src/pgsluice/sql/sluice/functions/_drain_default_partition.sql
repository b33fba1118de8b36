/*
 * Rows come into the default partition when maintenance was late, many, and when a message comes for a partition that is
 * gone, few. A few are moved into a partition of their range. Many are not moved: the default partition itself becomes the
 * partition of what it holds, and an empty one takes its place. So the work does not grow with what has piled up, but for one
 * reading of it while senders and readers wait: 0.08 s for a million messages (2 cores, PostgreSQL 18).
 *
 * Where many cannot be taken as they are, because other partitions lie between them or ids among them were never given,
 * they are moved in steps, a call each, into partitions that are narrower than the interval.
 *
 * Calls: _attach_partition, _create_default_partition.
 */
create or replace function sluice._drain_default_partition(parent regclass, queue_name text, partition_interval text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    v_moved_max constant integer := 5000;
    v_key record;
    v_type text;
    v_first bigint;
    v_last bigint;
    v_cut bigint;
    v_now bigint;
    v_range record;
    v_is_crowded boolean;
    v_table name;
    v_leaf name;
begin
    select * into v_key from sluice._partition_key(parent);
    v_type := case when v_key.is_time then 'timestamptz' else 'bigint' end;
    -- Not the ends of the range of ids, nor infinite times, inserted by hand: no partition can hold them.
    execute format(
        'select sluice._partition_position(min(stray.%2$I)::text, $1), sluice._partition_position(max(stray.%2$I)::text, $1)
         from %1$s as stray
         where stray.%2$I > $2::%3$s and stray.%2$I < $3::%3$s',
        v_key.default_partition, v_key.key_name, v_type
    )
    into v_first, v_last
    using
        v_key.is_time,
        case when v_key.is_time then '-infinity' else '-4611686018427387904' end,
        case when v_key.is_time then 'infinity' else '4611686018427387904' end;
    if v_first is null then
        return null;
    end if;
    select
        greatest(r.starts_at, max(b.ends_at) filter (where b.ends_at <= v_first)) as starts_at,
        least(r.ends_at, min(b.starts_at) filter (where b.starts_at > v_first)) as ends_at,
        min(b.starts_at) filter (where b.starts_at > v_first) as free_to
    into v_range
    from sluice._partition_range(v_first, v_key.is_time, partition_interval) as r
    left join sluice._partition_bounds(parent) as b on true
    group by r.starts_at, r.ends_at;
    execute format('select exists (select from %s offset $1)', v_key.default_partition)
    into v_is_crowded
    using v_moved_max;
    v_now := sluice._partition_now(queue_name, v_key.is_time);

    if v_is_crowded and v_last <= v_now and v_last < coalesce(v_range.free_to, 9223372036854775807) then
        select c.relname into v_table from pg_class as c where c.oid = parent;
        execute format('lock table only pgmq.%I in access exclusive mode', v_table);
        -- What was sent until the lock was there: nothing can have an id or a time beyond this.
        v_now := sluice._partition_now(queue_name, v_key.is_time);
        v_range.ends_at := least(
            (sluice._partition_range(v_now, v_key.is_time, partition_interval)).ends_at, v_range.free_to
        );
        v_leaf := sluice._partition_name(v_table, v_range.starts_at, v_key.is_time);
        execute format('alter table pgmq.%I detach partition %s', v_table, v_key.default_partition);
        execute format('alter table %s rename to %I', v_key.default_partition, v_leaf);
        execute format(
            'alter table pgmq.%I attach partition pgmq.%I for values from (%L) to (%L)',
            v_table, v_leaf,
            sluice._partition_literal(v_range.starts_at, v_key.is_time),
            sluice._partition_literal(v_range.ends_at, v_key.is_time)
        );
        perform sluice._create_default_partition(parent);
        return format(
            'the default partition became %s: %s to %s',
            v_leaf,
            sluice._partition_literal(v_range.starts_at, v_key.is_time),
            sluice._partition_literal(v_range.ends_at, v_key.is_time)
        );
    end if;

    execute format(
        'select sluice._partition_position(stray.%2$I::text, $1)
         from %1$s as stray
         where stray.%2$I >= $2::%3$s and stray.%2$I < $3::%3$s
         order by stray.%2$I
         offset $4
         limit 1',
        v_key.default_partition, v_key.key_name, v_type
    )
    into v_cut
    using
        v_key.is_time,
        sluice._partition_literal(v_range.starts_at, v_key.is_time),
        sluice._partition_literal(v_range.ends_at, v_key.is_time),
        v_moved_max;
    -- More rows than that of one time are moved at once: a partition cannot begin between them.
    return sluice._attach_partition(
        parent, v_range.starts_at,
        case when v_cut is null then v_range.ends_at else greatest(v_cut, v_first + 1) end
    );
end;
$$;

comment on function sluice._drain_default_partition(regclass, text, text) is
    'Give what the default partition holds, or the first of it, a partition of its own; returns what was done, null for nothing.';
revoke execute on function sluice._drain_default_partition(regclass, text, text) from public;
grant execute on function sluice._drain_default_partition(regclass, text, text) to sluice_admin;
