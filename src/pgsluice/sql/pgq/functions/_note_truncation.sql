-- pg_dump may connect between the check under the lock and the commit. Its snapshot does not show what this transaction
-- writes, as the copies of rows that are still needed, and it waits for the lock and reads empty tables. So the check is
-- repeated at the commit, by the trigger of this row.
--
-- Waits for no session: raises lock_not_available if the table is being truncated.
create or replace function pgq._note_truncation()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant bigint := 65536; -- some thousand rows
begin
    lock table pgq.truncation in row exclusive mode nowait;
    if pg_relation_size('pgq.truncation') > v_bytes_max then
        begin
            lock table pgq.truncation in access exclusive mode nowait;
            truncate pgq.truncation;
        exception
            when lock_not_available or object_in_use then
                null; -- another transaction, or this one, has a row; a later call does it
        end;
    end if;
    insert into pgq.truncation default values on conflict do nothing;
end;
$$;

comment on function pgq._note_truncation() is
    'Repeat the check for pg_dump at the commit of this transaction, which truncates tables.';
revoke execute on function pgq._note_truncation() from public;
grant execute on function pgq._note_truncation() to pgq_admin, sluice_admin;
