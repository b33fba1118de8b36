-- The expressions are those of sluice.send_staged.
create or replace function sluice._send_deduplicated(
    queue_name text, stage_id bigint, vt_sql text, headers_sql text, where_sql text, i_now timestamptz
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set synchronize_seqscans = off
as $$
declare
    v_messages_max constant integer := 1000;
    v_part record;
    v_rows bigint := 0;
begin
    for v_part in
        execute format(
            'select r.vt,
                array_agg(r.message order by r.number) as messages,
                array_agg(r.headers order by r.number) as headers,
                array_agg(r.deduplication_key order by r.number) as keys
            from (
                select %s as vt, s.message, %s as headers, s.deduplication_key, row_number() over () as number
                from sluice.stage_%s as s
                %s
            ) as r
            group by r.vt, (r.number - 1) / $3
            order by min(r.number)',
            vt_sql, headers_sql, stage_id, where_sql
        )
        using i_now, queue_name, v_messages_max
    loop
        perform sluice.send_batch(queue_name, v_part.messages, v_part.keys, v_part.headers, v_part.vt);
        v_rows := v_rows + cardinality(v_part.messages);
    end loop;
    return v_rows;
end;
$$;

comment on function sluice._send_deduplicated(text, bigint, text, text, text, timestamptz) is
    'Send the rows of a stage unless their key is known, in parts; returns how many rows there were.';
revoke execute on function sluice._send_deduplicated(text, bigint, text, text, text, timestamptz) from public;
grant execute on function sluice._send_deduplicated(text, bigint, text, text, text, timestamptz) to sluice_admin, sluice_writer;
