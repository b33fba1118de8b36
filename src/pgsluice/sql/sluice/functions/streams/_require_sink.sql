create or replace function sluice._require_sink(sink_id text, version bigint)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- An entry of the index has about 2,700.
    v_bytes_max constant integer := 1024;
begin
    if sink_id is null or version is null then
        raise exception using
            errcode = '22004',
            message = 'sink_id or version is null',
            hint = 'name the writer, and count what it writes';
    end if;
    if octet_length(sink_id) not between 1 and v_bytes_max then
        raise exception using
            errcode = '22023',
            message = format('sink_id has %s bytes', octet_length(sink_id)),
            hint = format('use 1 to %s bytes; of longer ones a hash', v_bytes_max);
    end if;
end;
$$;

comment on function sluice._require_sink(text, bigint) is
    'Raise unless this names a version of a sink.';
revoke execute on function sluice._require_sink(text, bigint) from public;
grant execute on function sluice._require_sink(text, bigint) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
