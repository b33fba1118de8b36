-- Without a key there is no order to go on in, and no row to be recognised by its events. So writers are kept out.
create or replace function sluice._capture_whole(source_table regclass, queue_name text, options jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows_at_once constant integer := 1000;
    v_shape record;
    v_contents json[];
begin
    execute format('lock table %s in share mode', source_table);
    v_shape := sluice._capture_shape(source_table::oid, options);
    for v_contents in
        execute format(
            'select array_agg(c.content)
             from (
                 select (select row_to_json(c.*) from (select %s) as c) as content,
                     (row_number() over () - 1) / $1 as piece
                 from %s as r
             ) as c
             group by c.piece
             order by c.piece',
            v_shape.columns_sql, source_table
        )
        using v_rows_at_once
    loop
        perform sluice._append_rows(
            queue_name, v_shape.schema_name, v_shape.table_name, v_shape.key_columns, v_contents
        );
    end loop;
end;
$$;

comment on function sluice._capture_whole(regclass, text, jsonb) is
    'Append every row of a captured table as it is, op r; nobody else can write to the table until the transaction ends.';
revoke execute on function sluice._capture_whole(regclass, text, jsonb) from public;
grant execute on function sluice._capture_whole(regclass, text, jsonb) to pgq_admin, sluice_admin;
