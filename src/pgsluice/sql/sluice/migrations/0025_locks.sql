-- breaking: no
-- Locks that need privileges: any role that can connect could hold an advisory lock.

create table sluice.lock (
    class integer not null,
    id integer not null,
    primary key (class, id)
);
comment on table sluice.lock is
    'Rows that are locked and never changed: one per share group (class 1936221042), limits of a queue (1936484717) and partitioned table.';

create table sluice.named_lock (
    name text primary key
);
comment on table sluice.named_lock is
    'Always empty: a transaction that holds a name has inserted and deleted it, and an insert of the same name waits for its end.';

create table sluice.notifier_lock (
    id integer primary key
);
comment on table sluice.notifier_lock is 'Always empty: the notifier that decides whether it leads locks the table.';

insert into sluice.lock (class, id) select 1936221042, g.group_id from sluice.share_group as g;
insert into sluice.lock (class, id) select 1936484717, l.limits_id from sluice.queue_limits as l;
