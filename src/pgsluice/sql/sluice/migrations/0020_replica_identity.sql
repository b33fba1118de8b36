-- breaking: no
-- One row without a key: a publication of updates needs to be told that the whole row identifies it.
alter table sluice.ledger replica identity full;
