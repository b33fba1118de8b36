-- The part of sluice.after_restore for retry entries, which all logs share.
create or replace function pgq._adopt_retries()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pass pgq.retry_pass;
    v_table regclass;
begin
    lock table pgq.retry_pass in share update exclusive mode; -- no pass meanwhile: see pgq._move_retries
    lock table pgq.retry_entry in share row exclusive mode;
    v_pass := pgq._last_retry_pass();
    if not pgq._is_restored(0) and not pgq._is_ahead(v_pass.pass_snapshot) then
        perform from pgq.retry_entry as e where e.entry_txid >= pg_snapshot_xmax(pg_current_snapshot()) limit 1;
        if not found then
            return;
        end if;
    end if;
    -- 3 is PostgreSQL's first normal id, which ended at initdb: every entry that the last pass saw counts as seen.
    foreach v_table in array array['pgq.retry_entry_0', 'pgq.retry_entry_1']::regclass[]
    loop
        execute format(
            'update only %s as e
             set entry_txid = case
                 when pg_visible_in_snapshot(e.entry_txid, $1) then ''3''::xid8
                 else pg_current_xact_id()
             end
             where e.xmin = any ($2)',
            v_table
        )
        using v_pass.pass_snapshot, pgq._loaded_by(v_table, 'entry_txid');
    end loop;
    v_pass.pass_id := v_pass.pass_id + 1;
    v_pass.pass_snapshot := '4:4:';
    insert into pgq.retry_pass values (v_pass.*);
    perform pgq._mark_origin(0);
end;
$$;

comment on function pgq._adopt_retries() is
    'Mark the retry entries with this server''s transaction ids, after a restore.';
revoke execute on function pgq._adopt_retries() from public;
grant execute on function pgq._adopt_retries() to pgq_admin, sluice_admin;
