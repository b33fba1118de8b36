-- breaking: no
-- A share group is a consumer of the log, but functions that move consumers refuse it.
alter table pgq.subscriber add column sub_is_group boolean not null default false;
comment on column pgq.subscriber.sub_is_group is 'True for a share group, whose position follows from its claims: see sluice.claim.';
