-- breaking: no
-- Few rows of these ledgers are lease checks; sluice._check_renewed_leases finds them among events due for redelivery.
create index if not exists redelivery_0_lease_idx on sluice.redelivery_0 (group_id, due_at) where look_at is not null;
create index if not exists redelivery_1_lease_idx on sluice.redelivery_1 (group_id, due_at) where look_at is not null;
