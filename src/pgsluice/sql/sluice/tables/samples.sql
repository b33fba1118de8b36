-- Rows are appended, and the oldest partition is truncated, so a held snapshot keeps no dead rows. Three partitions in turn
-- hold the samples of 10 seconds for 30 minutes each, three those of a minute for 12 hours each, three those of 15 minutes for
-- 15 days each. What a sample is of is a hash of 64 bits, so a sample needs neither the names in its row nor a table of them.
create table sluice.sample (
    slot smallint not null,
    source_id bigint not null,
    taken_at timestamptz not null,
    length bigint,
    ready bigint,
    in_flight bigint,
    delayed bigint,
    oldest_ready_s double precision,
    sent bigint,
    finished bigint,
    dead bigint,
    lag_events bigint,
    lag_s double precision,
    pinned_bytes bigint,
    retrying bigint,
    primary key (slot, source_id, taken_at)
)
partition by list (slot);
comment on table sluice.sample is 'Samples of queues, consumers and share groups. Written by sluice.take_samples.';
comment on column sluice.sample.source_id is 'The hash of kind, name and reader, the name of a queue in lower case.';
comment on column sluice.sample.slot is 'Partition: 0 to 2 every 10 seconds, 3 to 5 every minute, 6 to 8 every 15 minutes.';

do $$
begin
    for v_slot in 0 .. 8
    loop
        execute format('create table sluice.sample_%s partition of sluice.sample for values in (%s)', v_slot, v_slot);
        execute format(
            'comment on table sluice.sample_%s is %L', v_slot, 'Samples of one period. Truncated before the period after the next two.'
        );
    end loop;
end;
$$;

create type sluice.sample_figures as (
    kind text, name text, reader_name text, length bigint, ready bigint, in_flight bigint, delayed bigint,
    oldest_ready_s double precision, sent bigint, finished bigint, dead bigint,
    lag_events bigint, lag_s double precision, pinned_bytes bigint, retrying bigint
);
comment on type sluice.sample_figures is 'A sample with what it is of, between its functions.';

-- Values that are not transactional: no dead rows, and no lock.
create sequence sluice.sample_turn;
comment on sequence sluice.sample_turn is 'Time of the newest samples, in milliseconds since 1970.';
create sequence sluice.sample_cursor minvalue 0;
comment on sequence sluice.sample_cursor is 'Number of queues and logs sampled since the first of the list; the next call continues there.';

grant select on sluice.sample
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
grant select on sequence sluice.sample_turn, sluice.sample_cursor to sluice_admin;
