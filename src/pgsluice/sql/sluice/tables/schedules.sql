create table sluice.schedule (
    name text primary key check (name <> '' and octet_length(name) <= 200),
    target text not null check (target in ('queue', 'log')),
    queue_name text not null,
    message jsonb,
    headers jsonb,
    event jsonb,
    cron text,
    every interval check (every >= '100 milliseconds'),
    time_zone text not null,
    catch_up text not null check (catch_up in ('none', 'one', 'all')),
    catch_up_within interval not null check (catch_up_within >= '0'),
    jitter interval not null check (jitter >= '0' and jitter <= '1 day'),
    starts_at timestamptz not null,
    ends_at timestamptz,
    declared_by text,
    paused_at timestamptz,
    next_slot timestamptz,
    due_at timestamptz,
    last_slot timestamptz,
    last_fired_at timestamptz,
    error text,
    looked_at timestamptz not null default clock_timestamp(),
    undeclared_at timestamptz,
    check (num_nonnulls(cron, every) = 1),
    check ((next_slot is null) = (due_at is null))
)
-- Each firing updates its row, without changing an index: there are few schedules, and many firings.
with (fillfactor = 50);
comment on table sluice.schedule is
    'Schedules with their next slot. A row is locked while it is fired or changed.';
comment on column sluice.schedule.event is 'The fields of the event of a log, by name.';
comment on column sluice.schedule.next_slot is 'The first slot not fired yet; null: none left, or paused.';
comment on column sluice.schedule.due_at is 'When that slot is fired: with its jitter, or after the back-off of a failure.';
comment on column sluice.schedule.looked_at is
    'When next_slot was computed, by the server''s clock; in the future if the clock was set back since.';
comment on column sluice.schedule.undeclared_at is
    'When a version of the app that declared it started without declaring it, which paused it; null: declared, or by hand.';

-- The slots that were fired, each once.
create table sluice.schedule_slot (
    name text not null references sluice.schedule (name) on delete cascade,
    slot timestamptz not null,
    fired_at timestamptz not null,
    msg_id bigint not null,
    earlier_removed boolean not null default false,
    primary key (name, slot)
);
comment on table sluice.schedule_slot is
    'Slots fired in the last day, each with its message or event, written in one transaction; and of each schedule the last slot before.';
comment on column sluice.schedule_slot.earlier_removed is
    'Maintenance has removed earlier slots of the schedule. They are not sent again if the clock is set back.';
create index schedule_slot_fired_at_idx on sluice.schedule_slot (fired_at);

-- A parsed cron expression: the values of each field, in order.
create type sluice.cron as (
    minutes integer[],
    hours integer[],
    days integer[],
    is_last_day boolean, -- L among the days
    months integer[],
    weekdays integer[], -- Sunday is 0
    is_either boolean -- day of month or day of week; else both must match
);

grant select, insert, update, delete on sluice.schedule, sluice.schedule_slot to sluice_admin;
grant select on sluice.schedule, sluice.schedule_slot to sluice_reader;
-- Enough for the lateness of schedules, without messages and error texts.
grant select (name, paused_at, due_at) on sluice.schedule to sluice_monitor;
