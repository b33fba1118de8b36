-- breaking: no
alter table sluice.ledger add column kept_bytes bigint not null default 0;
comment on column sluice.ledger.kept_bytes is 'Bytes copied from the other tables at the last switch.';
