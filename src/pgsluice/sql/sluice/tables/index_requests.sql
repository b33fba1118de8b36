create table sluice.group_index_request (
    request_id bigint primary key generated always as identity,
    queue_table text not null,
    requested_at timestamptz not null default now()
);
comment on table sluice.group_index_request is 'Queues that were read by groups without indexes for it. Written by the first read, removed by maintenance when it has created them.';

grant select on sluice.group_index_request to sluice_reader, sluice_monitor;
grant select, insert, delete on sluice.group_index_request to sluice_admin;
