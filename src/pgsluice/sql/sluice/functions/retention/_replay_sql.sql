-- The callers append the end, because a statement that writes in a with clause cannot be nested.
create or replace function sluice._replay_sql(archive_table text, queue_table text, chosen text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $replay$with chosen as materialized (
            select m.msg_id, m.archived_at, m.message, m.headers
            from pgmq.%1$I as m
            where %3$s
        ),
        sent as (
            insert into pgmq.%2$I (vt, message, headers)
            select now(), chosen.message, sluice._replayed_headers(
                chosen.headers,
                jsonb_build_object('queue', $5, 'msg_id', chosen.msg_id, 'archived_at', chosen.archived_at)
            )
            from chosen
            order by chosen.msg_id
            returning msg_id, (headers #>> '{x-pgmq-replayed-from,msg_id}')::bigint as archived_msg_id
        )$replay$,
        archive_table, queue_table, chosen
    );
$$;

comment on function sluice._replay_sql(text, text, text) is
    'Return the start of a statement that replays the selected messages of an archive (m); sent has both ids. $5: the archive''s queue.';
revoke execute on function sluice._replay_sql(text, text, text) from public;
grant execute on function sluice._replay_sql(text, text, text) to sluice_admin;
