-- Updated at each attempt, under the lock of its message; no update changes an index, so the fillfactor allows HOT updates.
create table sluice.attempt (
    queue_name text not null,
    msg_id bigint not null,
    enqueued_at timestamptz not null,
    read_ct integer not null,
    claimed_at timestamptz,
    state text not null check (state in ('begun', 'failed', 'released')),
    attempts integer not null,
    first_failed_at timestamptz,
    last_failed_at timestamptz,
    error_type text,
    error text,
    trace text,
    worker text,
    check_at timestamptz not null,
    primary key (queue_name, msg_id)
) with (fillfactor = 70);
comment on table sluice.attempt is
    'Attempts of messages that failed, were released, or were started a second time. Most messages have no row.';
comment on column sluice.attempt.queue_name is 'In lower case, because names are case-insensitive.';
comment on column sluice.attempt.enqueued_at is 'Of the message, to distinguish messages where ids restart.';
comment on column sluice.attempt.read_ct is 'The last recorded claim.';
comment on column sluice.attempt.claimed_at is 'Time of that claim, as read_ct does not distinguish claims at the end of its range.';
comment on column sluice.attempt.state is 'State of that claim; it stays begun if the process died.';
comment on column sluice.attempt.attempts is 'Number of attempts that count, including that one unless it was released.';
comment on column sluice.attempt.check_at is 'When maintenance next checks if the message exists.';
create index attempt_check_at_idx on sluice.attempt (check_at);

grant select, insert, update, delete on sluice.attempt to sluice_reader, sluice_admin;

-- A claimed message, its recorded attempts, and its outcome. Passed between functions; not stored in a table.
create type sluice.tried_message as (
    position bigint,
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    claimed_at timestamptz,
    noted_state text,
    noted_claimed_at timestamptz,
    is_noted boolean,
    attempts integer,
    first_failed_at timestamptz,
    last_failed_at timestamptz,
    error_type text,
    error text,
    trace text,
    worker text,
    outcome text,
    note text,
    visible_at timestamptz,
    reason text
);
