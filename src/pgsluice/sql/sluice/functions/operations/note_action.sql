-- Security definer: an operator may not change or delete the record of an action. The role and the application are those of
-- the session. A null option of a queue or log is its reset; other arguments that are null were left out.
create or replace function sluice.note_action(
    action text,
    queue_name text default null,
    of_filter jsonb default null,
    message_count bigint default null,
    note text default null
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    insert into sluice.action (acted_at, actor, application, action, queue_name, filter, message_count, note)
    values (
        clock_timestamp(), sluice._caller(), current_setting('application_name'), note_action.action, note_action.queue_name,
        nullif(
            case
                when note_action.action in ('set_queue_options', 'set_log_options') then of_filter
                else jsonb_strip_nulls(of_filter)
            end,
            '{}'
        ),
        note_action.message_count, note_action.note
    );
$$;

comment on function sluice.note_action(text, text, jsonb, bigint, text) is
    'Record an action of an operator in its transaction, for sluice.list_actions: its name, the queue or log, the arguments that chose the messages or the object, the number of messages, and a note.';
revoke execute on function sluice.note_action(text, text, jsonb, bigint, text) from public;
grant execute on function sluice.note_action(text, text, jsonb, bigint, text) to pgq_admin, sluice_admin;
