-- breaking: no
-- Where the rows of a log were written. Transaction ids and snapshots are valid only where they were taken: in this
-- server, in physical copies of it (base backups, standbys, servers recovered to a point in time) and after pg_upgrade,
-- which all keep the files of tables and continue the ids. Restoring a dump keeps the values, but inserts the rows
-- again. So each row here has the transaction id of its own insertion: it equals the system column xmin until a dump is
-- restored. There are two rows, inserted by different (sub)transactions: the COPY of a restore, a single transaction,
-- cannot match both.
create table pgq.origin (
    queue_id integer not null,
    part integer not null check (part in (0, 1)),
    made_by xid not null,
    incarnation text not null,
    primary key (queue_id, part)
);
comment on table pgq.origin is
    'Two rows per event log, and two for the retry entries of all logs (queue_id 0): made_by equals xmin unless they were restored from a dump. Never update or rewrite them.';
comment on column pgq.origin.incarnation is 'Distinguishes this log from its restored copies; see sluice.log_incarnation.';

do $$
declare
    v_queue record;
    v_made_by xid;
begin
    for v_queue in
        select 0 as queue_id, '' as incarnation
        union all
        select q.queue_id, (pg_control_system()).system_identifier::text from pgq.queue as q
    loop
        insert into pgq.origin values (v_queue.queue_id, 0, '0', v_queue.incarnation) returning xmin into v_made_by;
        update pgq.origin as o set made_by = v_made_by where o.queue_id = v_queue.queue_id and o.part = 0;
        begin
            insert into pgq.origin values (v_queue.queue_id, 1, '0', v_queue.incarnation) returning xmin into v_made_by;
            update pgq.origin as o set made_by = v_made_by where o.queue_id = v_queue.queue_id and o.part = 1;
        exception
            when assert_failure then
                raise; -- never reached: the block exists for its subtransaction
        end;
    end loop;
end;
$$;
