-- Security definer: an operator may not change or delete the record of an action. The role and the application are those of
-- the session. A null option of a queue or log is its reset; other arguments that are null were left out.
create or replace function sluice._note_action(
    i_action text, i_queue_name text, i_filter jsonb, i_message_count bigint, i_note text
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    insert into sluice.action (acted_at, actor, application, action, queue_name, filter, message_count, note)
    values (
        clock_timestamp(), sluice._caller(), current_setting('application_name'), i_action, i_queue_name,
        nullif(case when i_action in ('set_queue_options', 'set_log_options') then i_filter else jsonb_strip_nulls(i_filter) end, '{}'),
        i_message_count, i_note
    );
$$;

comment on function sluice._note_action(text, text, jsonb, bigint, text) is
    'Record the action of an operator in its transaction: the function, the queue or log, the arguments that chose the messages, their number, and a note.';
revoke execute on function sluice._note_action(text, text, jsonb, bigint, text) from public;
grant execute on function sluice._note_action(text, text, jsonb, bigint, text) to pgq_admin, sluice_admin;
