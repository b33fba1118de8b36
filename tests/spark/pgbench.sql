\set aid random(1, 3000)
\set new random(3001, 100000)
\set delta random(-5000, 5000)
\set kind random(1, 20)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = 1 + :aid % 10;
update pgbench_branches set bbalance = bbalance + :delta where bid = 1;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (1 + :aid % 10, 1, :aid, :delta, current_timestamp);
\if :kind <= 3
delete from pgbench_accounts where aid = :aid;
\endif
\if :kind = 4
update pgbench_accounts set aid = :new where aid = :aid and not exists (select from pgbench_accounts where aid = :new);
\endif
\if :kind >= 5 and :kind <= 8
insert into pgbench_accounts (aid, bid, abalance, filler) values (:aid, 1, :delta, '') on conflict do nothing;
\endif
\if :kind = 9
delete from pgbench_history where ctid = (select min(ctid) from pgbench_history where delta = :delta);
\endif
\if :kind = 20
rollback;
\else
commit;
\endif
