-- A writer drops its stages when it commits, and leftovers of the previous version at its next commit. Abandoned stages are
-- dropped here; a writer slower than that gets an error, and writes again.
--
-- Writes: sluice.stage, sluice.sink_commit.
create or replace function sluice._maintain_sinks(stage_age interval default '1 day', rows_max integer default 1000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Each is a table with its locks, held until the end of the transaction.
    v_stages_max constant integer := 100;
    v_dropped integer;
    v_forgotten integer;
begin
    v_dropped := sluice._drop_stages(array(
        select s.stage_id
        from sluice.stage as s
        where s.made_at <= clock_timestamp() - stage_age
        order by s.made_at
        limit v_stages_max
    ));
    if v_dropped > 0 then
        task := 'sinks';
        done := true;
        detail := format('%s stages dropped that no commit came for', v_dropped);
        return next;
    end if;

    with expired as materialized (
        select c.ctid as place
        from sluice.sink_commit as c
        where c.expires_at <= clock_timestamp()
        order by c.expires_at
        limit rows_max
        for update skip locked
    )
    delete from sluice.sink_commit as c
    where c.ctid = any (array(select expired.place from expired));
    get diagnostics v_forgotten = row_count;
    if v_forgotten > 0 then
        task := 'sinks';
        done := true;
        detail := format(
            '%s expired commits removed%s', v_forgotten, case when v_forgotten >= rows_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_sinks(interval, integer) is
    'Drop stages of this age, and expired commits of sinks; returns a row for each kind removed.';
revoke execute on function sluice._maintain_sinks(interval, integer) from public;
grant execute on function sluice._maintain_sinks(interval, integer) to sluice_admin;
