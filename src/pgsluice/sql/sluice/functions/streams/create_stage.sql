/*
 * A table for the rows of one task, until all tasks are done and one transaction sends them: sluice.send_staged,
 * sluice.insert_staged.
 *
 * Unlogged, because unsent rows need no durability: the sender passes the row counts, so a table emptied by a crash is
 * detected. One per task, because tasks sharing a table would wait for each other, and rows of failed tasks must be
 * distinguishable. JSON is parsed here, in parallel, and not by the sender.
 *
 * Security definer: a role that may send may not create tables. Only the caller may fill and read the table.
 *
 * Writes: sluice.stage.
 */
create or replace function sluice.create_stage(sink_id text, version bigint, columns text[])
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_caller name := sluice._caller();
    v_stage_id bigint;
    v_columns text;
    v_unknown text;
begin
    perform sluice._require_sink(sink_id, version);
    select string_agg(format('%I %s', k.name, t.type), ', ' order by k.position), min(k.name) filter (where t.type is null)
    into v_columns, v_unknown
    from unnest(columns) with ordinality as k (name, position)
    left join (
        values
            ('queue', 'text'), ('message', 'jsonb'), ('headers', 'jsonb'), ('delay', 'integer'), ('vt', 'timestamptz'),
            ('key', 'text'), ('deduplication_key', 'text'),
            ('log', 'text'), ('ev_type', 'text'), ('ev_data', 'text'),
            ('ev_extra1', 'text'), ('ev_extra2', 'text'), ('ev_extra3', 'text'), ('ev_extra4', 'text')
    ) as t (name, type) on t.name = k.name
    where k.name is not null;
    if v_columns is null or v_unknown is not null then
        raise exception using
            errcode = '22023',
            message = case
                when v_unknown is null then 'a stage needs columns'
                else format('a stage has no column %L', v_unknown)
            end,
            hint = 'name columns of a message (queue, message, headers, delay, vt, key, deduplication_key) or of an event '
                '(log, ev_type, ev_data, ev_extra1 to ev_extra4)';
    end if;

    insert into sluice.stage (sink_id, version, columns, made_by, made_at)
    values (create_stage.sink_id, create_stage.version, create_stage.columns, v_caller, clock_timestamp())
    returning stage_id into v_stage_id;
    execute format(
        'create unlogged table sluice.stage_%s (%s) with (autovacuum_enabled = false)', v_stage_id, v_columns
    );
    execute format('grant select, insert on sluice.stage_%s to %I', v_stage_id, v_caller);
    return v_stage_id;
end;
$$;

comment on function sluice.create_stage(text, bigint, text[]) is
    'Create a table with these columns for rows that a sink will send as this version; returns its number: the 7th is stage_7 in schema sluice.';
revoke execute on function sluice.create_stage(text, bigint, text[]) from public;
grant execute on function sluice.create_stage(text, bigint, text[]) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
