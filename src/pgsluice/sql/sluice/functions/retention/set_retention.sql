create or replace function sluice.set_retention(queue_name text, archive_retention interval)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered text := sluice._registered_name(queue_name);
begin
    if archive_retention is null then
        delete from sluice.retention as r where r.queue_name = v_registered;
        perform sluice._note_action('set_retention'::text, v_registered, null::jsonb, null::bigint, 'no limit'::text);
        return;
    end if;
    if archive_retention < interval '0' then
        raise exception using
            errcode = '22023',
            message = format('archive_retention is negative: %s', archive_retention),
            hint = 'pass the time to keep archived messages, or null for no limit';
    end if;
    -- An interval beyond the range of timestamps fails here rather than in each maintenance.
    perform clock_timestamp() - archive_retention;

    insert into sluice.retention (queue_name, archive_retention)
    values (v_registered, set_retention.archive_retention)
    on conflict on constraint retention_pkey do update set archive_retention = excluded.archive_retention;
    perform sluice._note_action(
        'set_retention'::text, v_registered, jsonb_build_object('archive_retention', archive_retention), null::bigint, null::text
    );
end;
$$;

comment on function sluice.set_retention(text, interval) is
    'Set the minimum retention of archived messages of a queue; null: unlimited. Maintenance deletes older ones.';
revoke execute on function sluice.set_retention(text, interval) from public;
grant execute on function sluice.set_retention(text, interval) to sluice_admin;
