-- breaking: no
-- A transaction that truncates tables writes one row here. Its constraint trigger fires at the commit, the last moment
-- to look for pg_dump: see pgq._note_truncation. Nothing reads the rows; they are appended and truncated, because a
-- deleted row would stay under a held snapshot. After a restore the rows have transaction ids of another server, which
-- this one uses too: so the key has the time.
create table pgq.truncation (
    started_at timestamptz not null default now(),
    txid xid8 not null default pg_current_xact_id(),
    primary key (started_at, txid)
);
comment on table pgq.truncation is
    'Transactions that truncated tables; each row''s trigger rolls back a transaction during which pg_dump was started.';
