-- breaking: no
alter table sluice.schedule_slot add column earlier_removed boolean not null default false;
comment on column sluice.schedule_slot.earlier_removed is
    'Maintenance has removed earlier slots of the schedule. They are not sent again if the clock is set back.';
comment on table sluice.schedule_slot is
    'Slots fired in the last day, each with its message or event, written in one transaction; and of each schedule the last slot before.';
