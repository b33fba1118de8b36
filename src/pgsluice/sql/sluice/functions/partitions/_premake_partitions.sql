-- From the current one on, where the grid is not covered: existing partitions may have any bounds.
-- Calls: _attach_partition.
create or replace function sluice._premake_partitions(
    parent regclass, queue_name text, partition_interval text, premake integer
)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_moved_max constant integer := 5000; -- as _drain_default_partition
    v_key record;
    v_place bigint;
    v_range record;
    v_covered_to bigint;
    v_is_crowded boolean;
begin
    select * into v_key from sluice._partition_key(parent);
    v_place := sluice._partition_now(queue_name, v_key.is_time);
    for v_number in 0 .. premake
    loop
        select b.ends_at
        into v_covered_to
        from sluice._partition_bounds(parent) as b
        where b.starts_at <= v_place and v_place < b.ends_at;
        if found then
            v_place := v_covered_to;
            continue;
        end if;
        exit when v_place >= 9223372036854775806;

        select
            greatest(r.starts_at, max(b.ends_at) filter (where b.ends_at <= v_place)) as starts_at,
            least(r.ends_at, min(b.starts_at) filter (where b.starts_at > v_place)) as ends_at
        into v_range
        from sluice._partition_range(v_place, v_key.is_time, partition_interval) as r
        left join sluice._partition_bounds(parent) as b on true
        group by r.starts_at, r.ends_at;
        v_place := v_range.ends_at;
        -- Its rows in the default partition are moved under a lock. More rows are left to _drain_default_partition.
        execute format(
            'select exists (select from %1$s as stray where stray.%2$I >= $1::%3$s and stray.%2$I < $2::%3$s offset $3)',
            v_key.default_partition, v_key.key_name, case when v_key.is_time then 'timestamptz' else 'bigint' end
        )
        into v_is_crowded
        using
            sluice._partition_literal(v_range.starts_at, v_key.is_time),
            sluice._partition_literal(v_range.ends_at, v_key.is_time),
            v_moved_max;
        if not v_is_crowded then
            return next sluice._attach_partition(parent, v_range.starts_at, v_range.ends_at);
        end if;
    end loop;
end;
$$;

comment on function sluice._premake_partitions(regclass, text, text, integer) is
    'Create the current partition and premake further ones if missing; returns descriptions of the created ones.';
revoke execute on function sluice._premake_partitions(regclass, text, text, integer) from public;
grant execute on function sluice._premake_partitions(regclass, text, text, integer) to sluice_admin;
