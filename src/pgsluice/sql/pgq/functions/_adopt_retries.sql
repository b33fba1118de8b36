-- The part of sluice.after_restore for events that wait to be repeated, which all logs share.
create or replace function pgq._adopt_retries()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pass pgq.retry_pass;
begin
    lock table pgq.retry_pass in share update exclusive mode; -- no pass meanwhile: see pgq._move_retries
    lock table pgq.retry_entry in share row exclusive mode;
    v_pass := pgq._last_retry_pass();
    perform from pgq.retry_entry as e where e.entry_txid >= pg_snapshot_xmax(pg_current_snapshot()) limit 1;
    if not found and not pgq._is_ahead(v_pass.pass_snapshot) then
        return;
    end if;
    -- 3 is PostgreSQL's first id, ended when this server was made: what the last pass has seen, it has seen.
    update pgq.retry_entry as e
    set entry_txid = case
        when pg_visible_in_snapshot(e.entry_txid, v_pass.pass_snapshot) then '3'::xid8
        else pg_current_xact_id()
    end;
    v_pass.pass_id := v_pass.pass_id + 1;
    v_pass.pass_snapshot := '4:4:';
    insert into pgq.retry_pass values (v_pass.*);
end;
$$;

comment on function pgq._adopt_retries() is
    'Mark the events that wait to be repeated with this server''s transaction ids, after a restore.';
revoke execute on function pgq._adopt_retries() from public;
grant execute on function pgq._adopt_retries() to pgq_admin, sluice_admin;
