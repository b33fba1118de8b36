-- Bounded step; dead letters that another session moves are skipped. Call it until it returns 0.
create or replace function sluice.purge_dead_letters(
    queue_name text,
    consumer_name text default null,
    older_than interval default null,
    dead_letter_ids bigint[] default null,
    qty integer default 10000
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter sluice.dead_letter_filter;
    v_deleted bigint;
begin
    if (older_than is null) = (dead_letter_ids is null) then
        raise exception using
            errcode = case when older_than is null then '22004' else '22023' end,
            message = 'it is not clear which dead letters to delete',
            hint = 'pass older_than, 0 for all of them, or dead_letter_ids';
    end if;
    v_filter.until := clock_timestamp() - older_than;
    v_filter.dead_letter_ids := dead_letter_ids;
    -- An array instead of a join: without an estimate of the rows, the planner would scan the whole table.
    execute format(
        'delete from sluice.%1$I as d
         where d.dead_letter_id = any (array(
             select m.dead_letter_id
             from sluice.%1$I as m
             where %2$s
             %3$s
             limit $8
             for update skip locked
         ))',
        sluice._dead_letter_table(consumer_name),
        sluice._dead_letter_filter_sql(consumer_name),
        case when older_than is not null then 'order by m.dead_at' end
    )
    using null::jsonb, null::jsonb, null::timestamptz, v_filter.until, queue_name, consumer_name, v_filter, qty;
    get diagnostics v_deleted = row_count;
    if v_deleted > 0 then
        perform sluice.note_action(
            'purge_dead_letters'::text, queue_name,
            jsonb_build_object(
                'consumer_name', consumer_name, 'older_than', older_than, 'dead_letter_ids', to_jsonb(dead_letter_ids[:100])
            ),
            v_deleted, null::text
        );
    end if;
    return v_deleted;
end;
$$;

comment on function sluice.purge_dead_letters(text, text, interval, bigint[], integer) is
    'Delete dead letters of a queue, or of a share group or consumer of a log, permanently, at most qty: the oldest beyond older_than, or those with the given ids; returns their number: call it until it returns 0.';
revoke execute on function sluice.purge_dead_letters(text, text, interval, bigint[], integer) from public;
grant execute on function sluice.purge_dead_letters(text, text, interval, bigint[], integer) to pgq_admin, sluice_admin;
