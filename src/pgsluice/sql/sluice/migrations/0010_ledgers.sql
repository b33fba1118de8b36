-- breaking: no
alter table sluice.ledger add column kept_bytes bigint not null default 0;
comment on column sluice.ledger.kept_bytes is 'What of the other tables was still needed when these took over.';
