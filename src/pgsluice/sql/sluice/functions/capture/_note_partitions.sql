-- A drop makes no events of its rows, so this appends one for the partition. It has a higher id than those of the rows, as the
-- drop waited for their writers. A partition that is dropped before it is noted gets none. Security definer: the caller may
-- not write to the table.
create or replace function sluice._note_partitions(i_log_name text, i_source_table oid)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_found record;
    v_is_first boolean;
begin
    for v_found in
        select c.* from sluice._partition_changes(i_log_name, i_source_table) as c
    loop
        if v_found.change = 'new' then
            insert into sluice.captured_partition (queue_id, table_oid, partition_oid, partition_name, is_captured)
            values (v_found.queue_id, v_found.source_table, v_found.partition_oid, v_found.partition_name, v_found.is_captured)
            on conflict do nothing;
            continue;
        elsif v_found.change in ('dropped', 'forgotten') or v_found.change = 'detached' and v_found.policy = 'delete' then
            delete from sluice.captured_partition as n
            where n.queue_id = v_found.queue_id
              and n.table_oid = v_found.source_table
              and n.partition_oid = v_found.partition_oid;
        else
            update sluice.captured_partition as n
            set partition_name = v_found.partition_name,
                is_captured = v_found.is_captured,
                detached_at = case v_found.change when 'detached' then clock_timestamp() when 'renamed' then n.detached_at end
            where n.queue_id = v_found.queue_id
              and n.table_oid = v_found.source_table
              and n.partition_oid = v_found.partition_oid
              and (v_found.change = 'attached') = (n.detached_at is not null)
              and (v_found.change <> 'uncaptured' or n.is_captured);
        end if;
        v_is_first := found; -- not if a concurrent call was first
        if v_is_first and v_found.change in ('dropped', 'detached', 'attached', 'uncaptured') then
            perform pgq.insert_event(
                v_found.log_name, 'sluice.partition'::text,
                jsonb_build_object(
                    'state', v_found.change, 'partition', v_found.partition_name, 'oid', v_found.partition_oid::bigint,
                    'policy', v_found.policy, 'captured', v_found.is_captured
                )::text,
                (
                    select format('%I.%I', n.nspname, c.relname)
                    from pg_class as c
                    join pg_namespace as n on n.oid = c.relnamespace
                    where c.oid = v_found.source_table
                ),
                null::text, null::text, null::text
            );
        end if;
    end loop;
end;
$$;

comment on function sluice._note_partitions(text, oid) is
    'Note the partitions of a captured table, and append an event (type sluice.partition) for each that was dropped, detached, attached again or no longer captured.';
revoke execute on function sluice._note_partitions(text, oid) from public;
grant execute on function sluice._note_partitions(text, oid) to pgq_admin, sluice_admin;
