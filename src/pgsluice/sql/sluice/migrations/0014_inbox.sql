-- breaking: no
create table sluice.inbox (
    handler text not null,
    key text not null,
    expires_at timestamptz not null,
    primary key (handler, key)
);
comment on table sluice.inbox is
    'Idempotency keys of handlers, with their expiry.';
create index inbox_expires_at_idx on sluice.inbox (expires_at);

grant select, insert, update on sluice.inbox to sluice_reader;
grant select, insert, update, delete on sluice.inbox to sluice_admin;
