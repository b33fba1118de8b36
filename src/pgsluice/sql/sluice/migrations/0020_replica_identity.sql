-- breaking: no
-- One row without a key: for a publication of updates, the whole row identifies it.
alter table sluice.ledger replica identity full;
