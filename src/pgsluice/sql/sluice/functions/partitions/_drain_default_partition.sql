/*
 * The default partition gets many rows if maintenance is late, and few if messages arrive for a dropped partition. A few
 * rows are moved into a partition of their range, which may be wider than the interval. Many are not moved: the default
 * partition itself becomes the partition of its rows, and an empty one replaces it. So the work does not grow with the
 * backlog, except for one scan while senders and readers wait: 0.4 s for a million messages (2 busy cores,
 * PostgreSQL 18, 2026-11-21).
 *
 * If many rows cannot be converted like this, because other partitions lie between them or some were never sent, they are
 * moved in steps, one per call, into partitions that may be narrower than the interval.
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
    v_lowest text;
    v_highest text;
    v_first bigint;
    v_last bigint;
    v_cut bigint;
    v_now bigint;
    v_range record;
    v_is_crowded boolean;
    v_has_misfits boolean;
    v_is_whole boolean;
    v_is_locked boolean := false;
    v_table name;
    v_leaf name;
begin
    select * into v_key from sluice._partition_key(parent);
    select c.relname into v_table from pg_class as c where c.oid = parent;
    v_type := case when v_key.is_time then 'timestamptz' else 'bigint' end;
    -- Manually inserted ids at the ends of the range and infinite times fit no partition: they stay.
    v_lowest := case when v_key.is_time then '-infinity' else '-4611686018427387904' end;
    v_highest := case when v_key.is_time then 'infinity' else '4611686018427387904' end;
    loop
        execute format(
            'select sluice._partition_position(min(stray.%2$I)::text, $1), sluice._partition_position(max(stray.%2$I)::text, $1)
             from %1$s as stray
             where stray.%2$I > $2::%3$s and stray.%2$I < $3::%3$s',
            v_key.default_partition, v_key.key_name, v_type
        )
        into v_first, v_last
        using v_key.is_time, v_lowest, v_highest;
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
        execute format(
            'select exists (select from %1$s as stray where stray.%2$I <= $1::%3$s or stray.%2$I >= $2::%3$s)',
            v_key.default_partition, v_key.key_name, v_type
        )
        into v_has_misfits
        using v_lowest, v_highest;
        v_now := sluice._partition_now(queue_name, v_key.is_time);
        v_is_whole := v_is_crowded
            and not v_has_misfits
            and v_last <= v_now
            and v_last < coalesce(v_range.free_to, 9223372036854775807);
        exit when v_is_locked or not v_is_whole;
        -- Check again: a transaction that was running until now may have inserted a lower id.
        execute format('lock table only pgmq.%I in access exclusive mode', v_table);
        v_is_locked := true;
    end loop;

    if v_is_whole then
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

    -- Up to the current position, so that a few distant rows make one partition and not many.
    if v_first <= v_now then
        v_range.ends_at := least(
            (sluice._partition_range(v_now, v_key.is_time, partition_interval)).ends_at, v_range.free_to
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
    if v_cut is not null then
        -- On the grid if possible. More rows with one equal time are moved together: no bound fits between them.
        v_range.ends_at := (sluice._partition_range(v_cut, v_key.is_time, partition_interval)).starts_at;
        if v_range.ends_at <= v_first then
            v_range.ends_at := greatest(v_cut, v_first + 1);
        end if;
    end if;
    return sluice._attach_partition(parent, v_range.starts_at, v_range.ends_at);
end;
$$;

comment on function sluice._drain_default_partition(regclass, text, text) is
    'Move the rows of the default partition, or the first ones, into a partition of their own; returns a description, null if there are none.';
revoke execute on function sluice._drain_default_partition(regclass, text, text) from public;
grant execute on function sluice._drain_default_partition(regclass, text, text) to sluice_admin;
