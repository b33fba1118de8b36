-- One transaction of the load: pgbench's TPC-B-like one, and the order's message in the same
-- transaction, in which the trigger on pgbench_accounts also appends the change to the event log.
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
begin;
update public.pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from public.pgbench_accounts where aid = :aid;
update public.pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update public.pgbench_branches set bbalance = bbalance + :delta where bid = :bid;
insert into public.pgbench_history (tid, bid, aid, delta, mtime)
values (:tid, :bid, :aid, :delta, current_timestamp);
-- The casts give the parameters of the prepared statement their types.
select pgmq.send('orders', jsonb_build_object(
    'aid', :aid::integer, 'tid', :tid::integer, 'bid', :bid::integer, 'delta', :delta::integer
));
end;
