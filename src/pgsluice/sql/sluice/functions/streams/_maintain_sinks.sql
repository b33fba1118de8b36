-- A writer drops its stages when it commits, and leftovers of the previous version at its next commit. Abandoned stages are
-- dropped here; a writer slower than that gets an error, and writes again.
--
-- Writes: sluice.stage.
create or replace function sluice._maintain_sinks(stage_age interval default '1 day')
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Each is a table with its locks, held until the end of the transaction.
    v_stages_max constant integer := 100;
    v_dropped integer;
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
end;
$$;

comment on function sluice._maintain_sinks(interval) is
    'Drop stages of this age; returns a row if it dropped any.';
revoke execute on function sluice._maintain_sinks(interval) from public;
grant execute on function sluice._maintain_sinks(interval) to sluice_admin;
