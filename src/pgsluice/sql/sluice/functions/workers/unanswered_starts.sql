/*
 * For workers: what may have killed its process is not to be started beside others. A message without a row was claimed before, and
 * of its first start nobody notes anything.
 *
 * Reads: sluice.attempt.
 */
create or replace function sluice.unanswered_starts(queue_name text, msg_ids bigint[])
returns setof bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select claim.msg_id
    from unnest(unanswered_starts.msg_ids) with ordinality as claim (msg_id, position)
    left join sluice.attempt as noted
        on noted.queue_name = lower(unanswered_starts.queue_name)
        and noted.msg_id = claim.msg_id
    where noted.state is null
    or noted.state = 'begun'
    order by claim.position;
$$;

comment on function sluice.unanswered_starts(text, bigint[]) is
    'Of messages that were claimed again, those of whose last start nobody heard again: they may have killed their process.';
revoke execute on function sluice.unanswered_starts(text, bigint[]) from public;
grant execute on function sluice.unanswered_starts(text, bigint[]) to sluice_admin, sluice_reader;
