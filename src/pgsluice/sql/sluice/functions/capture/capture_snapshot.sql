/*
 * An incremental snapshot: the existing rows of a captured table, as events among those of its changes. A consumer that
 * applies them in the order of the log, from before the first on, ends with the table. Writers continue meanwhile.
 *
 * Why this is correct. A row is appended to the log while it is locked against change, in the transaction that holds the lock:
 *   - An earlier change of the row has committed, so the row is its result. Its event has a lower ev_id, taken before that
 *     commit, and is in the same batch or an earlier one.
 *   - A later change gets the row after the commit of this transaction, and takes its ev_id then: higher, and in the same
 *     batch or a later one.
 * A row that this does not see, or that leaves the chunk while it waits, was changed by a transaction whose event is in the
 * log: the triggers applied to every writer before the first row was read, see sluice.capture. That holds for rows that
 * appear behind the cursor, change their key, or are removed by TRUNCATE, which conflicts with this transaction.
 *
 * The ids are assigned by sluice._append_rows, a statement after the one that locks.
 *
 * Waiting for a row while holding others can deadlock with writers, and the writer may be the victim. So this waits only for
 * the first row of the chunk, when it holds none, and ends the chunk before the next row that another session has locked.
 *
 * Large rows: the chunk ends when it has 16 MB as they are stored, and a row beyond row_bytes_max lacks its large values.
 *
 * Calls: sluice._captures, sluice._capture_shape, sluice._note_shape, sluice._snapshot_sql, sluice._append_rows, sluice._append_table. Reads: the table, in the order of its key.
 */
create or replace function sluice.capture_snapshot(
    source_table regclass, log_name text, after_key jsonb default null, qty integer default 1000
)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set timezone = 'UTC'
set datestyle = 'ISO'
set intervalstyle = 'iso_8601'
set bytea_output = 'hex'
set extra_float_digits = 1
set lc_monetary = 'C'
as $$
declare
    v_options jsonb;
    v_shape record;
    v_walk record;
    v_first jsonb;
    v_locked boolean;
    v_sql record;
    v_piece record;
    v_last jsonb;
begin
    if source_table is null or log_name is null then
        raise exception using
            errcode = '22004',
            message = 'table or event log is null',
            hint = 'name a captured table and its event log';
    end if;
    perform sluice._require_all_rows(source_table);
    select c.options
    into v_options
    from sluice.list_captures(capture_snapshot.log_name) as c
    where c.source_table = capture_snapshot.source_table
      and c.enabled;
    if not found then
        raise exception using
            errcode = 'PQ007',
            message = format('%s is not captured into event log %L', source_table, log_name),
            detail = 'A snapshot is only useful together with the changes, so they must be captured first.',
            hint = format('capture it first: select sluice.capture(%L, %L); its triggers must be enabled', source_table, log_name);
    end if;
    if qty is null or qty < 1 then
        raise exception using
            errcode = '22023',
            message = format('qty is %s', coalesce(qty::text, 'null')),
            hint = 'take at least one row in a call';
    end if;
    v_shape := sluice._capture_shape(source_table::oid, v_options, null::text[], null::oid[]);
    v_walk := sluice._capture_walk(source_table::oid, v_shape.key_columns, after_key);
    if v_walk.key_sql is null then
        -- Without a key there is no order to continue in, and events cannot be matched to rows. So writers are locked out.
        execute format('lock table %s in share mode', source_table);
        perform sluice._append_table(source_table, source_table, log_name, v_options);
        return null;
    end if;

    v_sql := sluice._snapshot_sql(v_shape.kept_columns, v_shape.key_columns, v_shape.columns_sql, v_options);
    -- The first row, by its key: while this waits, the row may be deleted or get another key, and is searched again.
    loop
        execute format(
            'select %s from %s as r where $1 is null or %s order by %s limit 1',
            v_walk.key_json_sql, source_table, v_walk.after_sql, v_walk.key_sql
        )
        using after_key
        into v_first;
        if v_first is null then
            return null;
        end if;
        execute format('select true from %s as r where %s for share', source_table, v_walk.equal_sql)
        using v_first
        into v_locked;
        exit when v_locked;
    end loop;

    perform sluice._note_shape(
        source_table::oid, v_shape.shape, v_shape.kept_columns, null::text[], null::oid[]
    );
    for v_piece in
        execute format(
            v_sql.pieces_sql,
            format(
                'with wanted as materialized (
                     select w.key, w.position
                     from (
                         select %1$s as key, row_number() over (order by %2$s) as position,
                             sum(%5$s) over (order by %2$s rows between unbounded preceding and 1 preceding) as bytes
                         from %3$s as r
                         where %4$s
                         order by %2$s
                         limit $2
                     ) as w
                     where w.bytes is null or w.bytes < 16777216
                 ), held as materialized (
                     select %1$s as key, %6$s
                     from %3$s as r
                     where %4$s
                     order by %2$s
                     limit (select count(*) from wanted)
                     for share skip locked
                 ), chunk as (
                     select w.position, w.key, h.content, h.left_out, bool_and(h.key is not null) over (order by w.position) as unbroken
                     from wanted as w
                     left join held as h using (key)
                 )
                 select c.key, c.content, c.left_out
                 from chunk as c
                 where c.unbroken
                 order by c.position',
                v_walk.key_json_sql, v_walk.key_sql, source_table, v_walk.from_sql, v_sql.stored_sql, v_sql.row_sql
            )
        )
        using v_first, qty
    loop
        perform sluice._append_rows(
            log_name, v_shape.schema_name, v_shape.table_name, v_shape.key_columns, v_shape.shape, v_piece.contents,
            v_piece.left_out
        );
        v_last := v_piece.last_key;
    end loop;
    return v_last;
end;
$$;

comment on function sluice.capture_snapshot(regclass, text, jsonb, integer) is
    'Append the next rows of a captured table as snapshot events (op r), at most qty behind after_key in the order of the key; returns the last key, null if there were no more. Commit after each call. A table without a key is read whole, and cannot be written to until the commit.';
revoke execute on function sluice.capture_snapshot(regclass, text, jsonb, integer) from public;
grant execute on function sluice.capture_snapshot(regclass, text, jsonb, integer) to pgq_admin, sluice_admin;
