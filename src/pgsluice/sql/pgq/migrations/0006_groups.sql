-- breaking: no
-- A share group is a consumer of the log to everybody but itself: what moves a consumer leaves it alone.
alter table pgq.subscriber add column sub_is_group boolean not null default false;
comment on column pgq.subscriber.sub_is_group is 'A share group: its position follows from its claims, see sluice.claim.';
