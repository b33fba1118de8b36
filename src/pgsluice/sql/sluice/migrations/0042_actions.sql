-- breaking: no
create table sluice.action (
    action_id bigint generated always as identity primary key,
    acted_at timestamptz not null,
    actor text not null,
    application text not null,
    action text not null,
    queue_name text,
    filter jsonb,
    message_count bigint,
    note text
);
comment on table sluice.action is
    'Actions of operators, written in their transactions by sluice._note_action and kept for 90 days.';
comment on column sluice.action.actor is 'The role of the session.';
comment on column sluice.action.action is 'The name of the function.';
comment on column sluice.action.queue_name is 'The queue or log; null: the action concerns none.';
comment on column sluice.action.filter is 'The arguments that chose the messages or the object.';
comment on column sluice.action.message_count is 'Messages or events that were sent, moved or deleted.';

-- A filter may have parts of payloads, so it is not for monitors.
grant select on sluice.action to pgq_admin, sluice_admin;
