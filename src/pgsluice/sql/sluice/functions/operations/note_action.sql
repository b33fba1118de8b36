-- For operators' functions of PGMQ, which record nothing, and for the tools of others.
create or replace function sluice.note_action(
    action text,
    queue_name text default null,
    of_filter jsonb default null,
    message_count bigint default null,
    note text default null
)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select sluice._note_action(action, queue_name, of_filter, message_count, note);
$$;

comment on function sluice.note_action(text, text, jsonb, bigint, text) is
    'Record an action of an operator in its transaction, for sluice.list_actions: its name, the queue or log, the arguments that chose the messages or the object, the number of messages, and a note.';
revoke execute on function sluice.note_action(text, text, jsonb, bigint, text) from public;
grant execute on function sluice.note_action(text, text, jsonb, bigint, text) to pgq_admin, sluice_admin;
