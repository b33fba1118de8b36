/*
 * For workers, which do not start a message that may have killed its process beside other messages. A message without a row
 * was claimed before, because its first start is not recorded.
 *
 * Reads: sluice.attempt.
 */
create or replace function sluice.unfinished_attempts(queue_name text, msg_ids bigint[])
returns setof bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select claim.msg_id
    from unnest(unfinished_attempts.msg_ids) with ordinality as claim (msg_id, position)
    left join sluice.attempt as noted
        on noted.queue_name = lower(unfinished_attempts.queue_name)
        and noted.msg_id = claim.msg_id
    where noted.state is null
    or noted.state = 'begun'
    order by claim.position;
$$;

comment on function sluice.unfinished_attempts(text, bigint[]) is
    'Return the redelivered messages whose last start has no outcome: they may have killed their process.';
revoke execute on function sluice.unfinished_attempts(text, bigint[]) from public;
grant execute on function sluice.unfinished_attempts(text, bigint[]) to sluice_admin, sluice_reader;
