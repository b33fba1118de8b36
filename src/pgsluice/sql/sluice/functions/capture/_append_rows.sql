-- Security definer: the caller of a snapshot needs its own rights on the table, but none on the log's sequence.
create or replace function sluice._append_rows(
    log_name text, schema_name text, table_name text, key_columns text[], shape text, contents json[],
    left_out text[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_target record;
begin
    v_target := sluice._capture_target(log_name, null::integer);
    execute format(
        'insert into pgq.%I (ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2)
         select nextval($1), now(), ''r'',
             json_build_object(''op'', ''r'', ''before'', null, ''after'', r.content, ''source'', $2, ''ts_ms'', $3 %s),
             $4, $5
         from unnest($6) with ordinality as r (content, position)
         order by r.position',
        v_target.event_table, case when left_out <> '{}' then ', ''left_out'', json_build_object(''after'', $7)' end
    )
    using v_target.event_seq,
        json_build_object(
            'schema', schema_name, 'table', table_name, 'key', key_columns, 'txId', pg_current_xact_id()::text::bigint
        ),
        (extract(epoch from clock_timestamp()) * 1000)::bigint,
        format('%I.%I', schema_name, table_name),
        shape,
        contents,
        left_out;
end;
$$;

comment on function sluice._append_rows(text, text, text, text[], text, json[], text[]) is
    'Append rows of a captured table in this order as snapshot events (op r), with the names of the columns whose values are left out of some of them.';
revoke execute on function sluice._append_rows(text, text, text, text[], text, json[], text[]) from public;
grant execute on function sluice._append_rows(text, text, text, text[], text, json[], text[]) to pgq_admin, sluice_admin;
