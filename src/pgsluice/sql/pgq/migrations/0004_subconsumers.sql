-- breaking: no
-- Cooperative consumers: a member of a group is a subscriber of its own, with a position only while it has a batch.
alter table pgq.subscriber add column sub_main integer references pgq.subscriber (sub_key) on delete cascade;
comment on column pgq.subscriber.sub_main is 'The main consumer of the group that it is a member of; null: it is no member.';

-- Rows of a ledger are appended and go by TRUNCATE: there is nothing to vacuum. And statistics of a ledger that has just been
-- emptied are worse than none: they make a plan that reads it whole, which is then kept while it grows.
alter table pgq.position_0 set (autovacuum_enabled = off);
alter table pgq.position_1 set (autovacuum_enabled = off);

-- An insertion is refused by the view's trigger, which says what to call instead.
grant insert, delete on pgq.subscription to pgq_admin, sluice_admin;
