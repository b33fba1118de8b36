create or replace function sluice._maintain_samples()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice.take_samples('100 milliseconds'::interval);
end;
$$;

comment on function sluice._maintain_samples() is 'Take samples if some are due; returns no rows.';
revoke execute on function sluice._maintain_samples() from public;
grant execute on function sluice._maintain_samples() to sluice_admin;
