/*
 * Inserts rows of stages as events, in the order of the stages and of the rows in each, into the current table of the log,
 * as COPY by a client does.
 *
 * Calls: sluice._stages, pgq.current_event_table. Writes: the logs' tables.
 */
create or replace function sluice.insert_staged(log_name text, stages bigint[], row_counts bigint[])
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set synchronize_seqscans = off
as $$
declare
    v_stage record;
    v_log text;
    v_fields text;
    v_where text;
    v_inserted bigint;
    v_part bigint;
    v_inserted_all bigint := 0;
begin
    for v_stage in
        select * from sluice._stages(stages, row_counts, 'log'::text, log_name)
    loop
        select string_agg(format('%I', k.name), ', ' order by k.position)
        into v_fields
        from unnest(v_stage.columns) with ordinality as k (name, position)
        where k.name like E'ev\\_%';
        if v_fields is null then
            raise exception using
                errcode = '22023',
                message = format('stage %s has no column of an event', v_stage.stage_id),
                hint = 'send messages with sluice.send_staged';
        end if;

        v_where := case when log_name is null then 'where s.log = $1' else '' end;
        v_inserted := 0;
        foreach v_log in array v_stage.targets
        loop
            execute format(
                'insert into %s (%s) select %s from sluice.stage_%s as s %s',
                pgq.current_event_table(v_log), v_fields, v_fields, v_stage.stage_id, v_where
            )
            using v_log;
            get diagnostics v_part = row_count;
            v_inserted := v_inserted + v_part;
        end loop;
        if v_inserted <> v_stage.row_count then
            perform sluice._refuse_stage(
                v_stage.stage_id, format('It has %s rows and not %s.', v_inserted, v_stage.row_count)
            );
        end if;
        v_inserted_all := v_inserted_all + v_inserted;
    end loop;
    return v_inserted_all;
end;
$$;

comment on function sluice.insert_staged(text, bigint[], bigint[]) is
    'Append the rows of stages as events, to the log, or with null to the log that each row names; raises an error if a stage does not have the given row count. Returns their number.';
revoke execute on function sluice.insert_staged(text, bigint[], bigint[]) from public;
grant execute on function sluice.insert_staged(text, bigint[], bigint[]) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
