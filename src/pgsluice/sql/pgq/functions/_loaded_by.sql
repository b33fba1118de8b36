-- Rows may have been written here between the restore of a dump and sluice.after_restore(); they keep their transaction
-- ids. The system column xmin tells them apart. A row written here names its own transaction: its xmin is that id, or a
-- higher one (of a savepoint), and the table had its indexes before, which a restore creates after the rows. A
-- transaction that wrote rows of several others loaded a dump.
create or replace function pgq._loaded_by(i_table regclass, i_txid_column name)
returns xid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant bigint := pg_current_xact_id()::text::bigint; -- age() counts from it
    v_indexed bigint;
    v_loaded_by xid[];
begin
    v_indexed := v_now - coalesce((select max(age(i.xmin)) from pg_index as i where i.indrelid = i_table), 0);
    execute format(
        'select array_agg(w.writer)
         from (
             select t.xmin as writer
             from only %s as t
             group by t.xmin
             having min(t.%2$I::text::bigint) <= $1
                 or max(t.%2$I::text::bigint) > $2 - age(t.xmin)
                 or min(t.%2$I::text::bigint) <> max(t.%2$I::text::bigint)
         ) as w',
        i_table, i_txid_column
    )
    using v_indexed, v_now
    into v_loaded_by;
    return coalesce(v_loaded_by, '{}');
end;
$$;

comment on function pgq._loaded_by(regclass, name) is
    'Return the transactions that loaded rows of a table from a dump; the column holds each row''s original transaction.';
revoke execute on function pgq._loaded_by(regclass, name) from public;
grant execute on function pgq._loaded_by(regclass, name) to pgq_admin, sluice_admin;
