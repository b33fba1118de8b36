-- breaking: no
-- Cooperative consumers: a member of a group is a subscriber, which has a position only while it has a batch.
alter table pgq.subscriber add column sub_main integer references pgq.subscriber (sub_key) on delete cascade;
comment on column pgq.subscriber.sub_main is 'The main consumer of its group; null: it is no subconsumer.';

-- Rows of a ledger are appended and truncated: there is nothing to vacuum. Statistics of a ledger that has just been
-- truncated are worse than none: they lead to a cached plan with a sequential scan, which is kept while the ledger
-- grows.
alter table pgq.position_0 set (autovacuum_enabled = off);
alter table pgq.position_1 set (autovacuum_enabled = off);

-- The view's trigger refuses an insert, and its hint names the functions to call.
grant insert, delete on pgq.subscription to pgq_admin, sluice_admin;
