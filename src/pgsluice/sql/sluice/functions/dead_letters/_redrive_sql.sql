-- One statement, so that a message is always either a dead letter or in a queue.
create or replace function sluice._redrive_sql(queue_table text, chosen text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $redrive$with chosen as materialized (
            select m.dead_letter_id from sluice.dead_letter as m where %2$s
        ),
        moved as (
            delete from sluice.dead_letter as d
            where d.dead_letter_id = any (array(select chosen.dead_letter_id from chosen))
            returning d.*
        ),
        sent as (
            insert into pgmq.%1$I (vt, message, headers)
            select now(), moved.message, sluice._replayed_headers(
                moved.headers,
                jsonb_build_object(
                    'queue', moved.queue_name, 'msg_id', moved.msg_id, 'dead_letter_id', moved.dead_letter_id,
                    'dead_at', moved.dead_at, 'reason', moved.reason
                )
            )
            from moved
            order by moved.dead_letter_id
            returning msg_id, (headers #>> '{x-pgmq-replayed-from,dead_letter_id}')::bigint as dead_letter_id
        )
        select sent.dead_letter_id, sent.msg_id from sent order by sent.dead_letter_id$redrive$,
        queue_table, chosen
    );
$$;

comment on function sluice._redrive_sql(text, text) is
    'Return the statement that moves the chosen dead letters (m) into a queue.';
revoke execute on function sluice._redrive_sql(text, text) from public;
grant execute on function sluice._redrive_sql(text, text) to sluice_admin;
