/*
 * The indexes that claims from a queue with limits read. A message is in one index per line of this table at any time:
 *
 *   _claimed_idx    messages in flight                     fleet_concurrency
 *   _key_claim_idx  the same, key by key                   keys
 *   _key_idx        ready messages, key by key             keys
 *   _key_vt_idx     deferred messages, key by key          keys
 *   _waiting_idx    released messages that wait            when_waiting
 *   _level<n>_idx, _level<n>_vt_idx   ready and deferred messages, level by level, with n levels
 *
 * A message is in flight if it was read and not released: a release sets last_read_at to null.
 *
 * Each index has its own order. The queries request that order, and avoid sorts, so that outdated statistics cannot make
 * the planner scan another index.
 */
create or replace function sluice._limit_indexes(i_limits sluice.queue_settings)
returns table (index_name text, definition text)
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select i_limits.queue_table || wanted.suffix, wanted.definition
    from (
        select
            sluice._limit_key_sql(i_limits.queue_table) as key,
            case
                when i_limits.priority_weights is not null then
                    sluice._limit_level_sql(i_limits.queue_table, cardinality(i_limits.priority_weights))
            end as level,
            i_limits.key_concurrency is not null or i_limits.when_waiting is not null as has_keys
    ) as l
    cross join lateral (
        values
            (
                i_limits.fleet_concurrency is not null, '_claimed_idx',
                '(vt, last_read_at) where vt > enqueued_at and last_read_at is not null'
            ),
            (
                l.has_keys, '_key_claim_idx',
                format('((%s), vt desc) where vt > enqueued_at and last_read_at is not null', l.key)
            ),
            (l.has_keys, '_key_idx', format('((%s), msg_id) where vt <= enqueued_at', l.key)),
            (l.has_keys, '_key_vt_idx', format('((%s), vt, msg_id) where vt > enqueued_at', l.key)),
            (
                i_limits.when_waiting is not null, '_waiting_idx',
                format('((%s), vt desc) where read_ct > 0 and last_read_at is null', l.key)
            ),
            (
                l.level is not null, format('_level%s_idx', cardinality(i_limits.priority_weights)),
                format('((%s), msg_id) where vt <= enqueued_at', l.level)
            ),
            (
                l.level is not null, format('_level%s_vt_idx', cardinality(i_limits.priority_weights)),
                format('((%s), vt, msg_id) where vt > enqueued_at', l.level)
            )
    ) as wanted (is_wanted, suffix, definition)
    where wanted.is_wanted;
$$;

comment on function sluice._limit_indexes(sluice.queue_settings) is
    'Return the indexes that a queue with these limits has in addition to those of every queue.';
revoke execute on function sluice._limit_indexes(sluice.queue_settings) from public;
grant execute on function sluice._limit_indexes(sluice.queue_settings) to sluice_admin;
