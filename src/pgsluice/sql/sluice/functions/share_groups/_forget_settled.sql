-- The same rule as in sluice._maintain_ledgers, for one log and row by row.
create or replace function sluice._forget_settled(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from sluice.claim as c
    using sluice.share_group as g, sluice._last_claim(g.group_id) as newest
    where g.queue_id = i_queue_id
      and c.group_id = g.group_id
      and c.claim_id < newest.claim_id
      and c.events + c.redeliveries <= (
          select coalesce(sum(o.events), 0)
          from sluice.outcome as o
          where o.group_id = c.group_id
            and o.claim_id = c.claim_id
            and (not o.is_backlog or pg_visible_in_snapshot(o.outcome_txid, newest.backlog_snapshot))
      );
    delete from sluice.outcome as o
    using sluice.share_group as g
    where g.queue_id = i_queue_id
      and o.group_id = g.group_id
      and not exists (select from sluice.claim as c where c.group_id = o.group_id and c.claim_id = o.claim_id);
end;
$$;

comment on function sluice._forget_settled(integer) is
    'Delete the settled claims of a log''s share groups, and their outcomes.';
revoke execute on function sluice._forget_settled(integer) from public;
grant execute on function sluice._forget_settled(integer) to pgq_admin, sluice_admin;
