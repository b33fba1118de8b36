-- breaking: no
-- A delayed event is an entry without an owner: it becomes an event for every consumer, and gets its number then.
alter table pgq.retry_entry alter column ev_id drop not null;
alter table pgq.retry_entry alter column ev_owner drop not null;
comment on table pgq.retry_entry is
    'One row per retry of an event by a consumer, and per event that was delayed by its producer.';
comment on column pgq.retry_entry.ev_owner is 'The consumer that retries it; null: a delayed event, for all consumers.';

-- Many entries may be due at one time, such as nine o'clock: a pass ends between two entries, not between two times.
create sequence pgq.retry_entry_id_seq;
alter table pgq.retry_entry add column entry_id bigint not null default nextval('pgq.retry_entry_id_seq');
comment on column pgq.retry_entry.entry_id is 'Orders the entries of the same time.';
do $$
declare
    v_table name;
begin
    foreach v_table in array array['retry_entry', 'retry_entry_0', 'retry_entry_1']
    loop
        execute format('drop index pgq.%I, pgq.%I', v_table || '_after_idx', v_table || '_event_idx');
        execute format('create index %I on pgq.%I (ev_retry_after, entry_id)', v_table || '_after_idx', v_table);
        -- Makes a transaction with an old snapshot fail instead of queueing an event twice.
        execute format(
            'create unique index %I on pgq.%I (ev_owner, ev_id, entry_batch) where ev_owner is not null',
            v_table || '_event_idx', v_table
        );
    end loop;
end;
$$;

alter table pgq.retry_pass
    add column pass_entry bigint not null default 9223372036854775807,
    add column copied_time timestamptz not null default '-infinity',
    add column copied_entry bigint not null default 0;
alter table pgq.retry_pass
    alter column pass_entry drop default, alter column copied_time drop default, alter column copied_entry drop default;
comment on column pgq.retry_pass.pass_entry is 'The last entry_id of pass_time that was moved.';
comment on column pgq.retry_pass.copied_time is
    'Set while the other table is being emptied: its entries up to this time and copied_entry have been copied and no longer count.';

create or replace view pgq.retry_queue as
select e.ev_retry_after, e.ev_queue, e.ev_id, e.ev_time, null::bigint as ev_txid, e.ev_owner, e.ev_retry,
    e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
from pgq.retry_entry as e
cross join (select p.* from pgq.retry_pass as p order by p.pass_id desc limit 1) as pass
where e.ev_owner is not null
  and not (
      pg_visible_in_snapshot(e.entry_txid, pass.pass_snapshot)
      and (e.ev_retry_after, e.entry_id) <= (pass.pass_time, pass.pass_entry)
  )
  and (
      e.tableoid <> case pass.pass_table when 0 then 'pgq.retry_entry_1'::regclass else 'pgq.retry_entry_0'::regclass end
      or (e.ev_retry_after, e.entry_id) > (pass.copied_time, pass.copied_entry)
  );

-- It now runs in steps, and has an argument for their size.
drop function if exists pgq._maintain_retry(bigint);
