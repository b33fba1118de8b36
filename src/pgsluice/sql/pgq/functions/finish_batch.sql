create or replace function pgq.finish_batch(x_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.subscription as s
    set sub_active = now(),
        sub_last_tick = s.sub_next_tick,
        sub_next_tick = null,
        sub_batch = null
    where s.sub_batch = x_batch_id;
    if not found then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;
    return 1;
end;
$$;

comment on function pgq.finish_batch(bigint) is
    'Close a batch: the consumer moves behind its events. 1, or 0 and a warning when it is not open.';
revoke execute on function pgq.finish_batch(bigint) from public;
grant execute on function pgq.finish_batch(bigint) to sluice_admin, sluice_reader;
