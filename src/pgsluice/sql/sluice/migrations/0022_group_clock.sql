-- breaking: no
-- Times in the ledgers of share groups are group time, which never decreases: see sluice._next_claim.
alter table sluice.claim add column clock_shift interval not null default '0';
comment on column sluice.claim.clock_shift is
    'Offset of the group clock from the server''s. All times in the ledgers of a group are group time.';
comment on column sluice.redelivery.attempts is
    'Attempts counted so far; in a row with look_at, the outcome_no of the renewal that expires then.';

-- Replaced by a function with one more argument.
drop function if exists sluice._look_at_lease(sluice.share_group, sluice.claim, bigint);

alter table sluice.schedule add column looked_at timestamptz not null default clock_timestamp();
comment on column sluice.schedule.looked_at is
    'When next_slot was computed, by the server''s clock; in the future if the clock was set back since.';
