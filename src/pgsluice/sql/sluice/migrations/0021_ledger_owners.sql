-- breaking: no
-- An entry of a ledger belongs to the role that created it. Null: an earlier entry without an owner.
alter table sluice.sink_commit add column owned_by regrole;
comment on column sluice.sink_commit.owned_by is 'The role that first committed to it; null: the next one that does.';
alter table sluice.deduplication_key add column sent_by regrole;
comment on column sluice.deduplication_key.sent_by is 'The role that sent the key.';
alter table sluice.inbox add column recorded_by regrole;
comment on column sluice.inbox.recorded_by is 'The role that recorded the key.';

-- Functions of the schemas' owner write them.
revoke insert, update, select on sluice.deduplication_key from sluice_writer;
revoke insert, update on sluice.inbox from sluice_reader;

-- A key is user data: not for monitoring roles. A hash would reveal a guessed key.
revoke select on sluice.parked_key from sluice_monitor;
grant select (limits_id, msg_id, parked_at) on sluice.parked_key to sluice_monitor;
