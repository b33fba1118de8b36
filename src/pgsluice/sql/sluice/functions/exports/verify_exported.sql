/*
 * Compares rows that were read back from the lake with the archive, row by row. Only rows with equal columns become
 * verified: messages that commit late, or with ids below verified ones, were not read and are not marked.
 *
 * The hash of a row is SHA-256 over its columns in the order of the lake, a line each: numbers in digits, times in
 * microseconds since 1970, JSON as text, null as an empty line. No line contains a line feed.
 *
 * Locks: the export, against sessions that drop verified messages: a mark must not outlive its message.
 */
create or replace function sluice.verify_exported(
    queue_name text, export_name text, msg_ids bigint[], enqueued_us bigint[], hashes bytea[],
    out verified bigint, out different bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_export_id bigint := (sluice._require_export(queue_name, export_name)).export_id;
begin
    -- A separate statement: the next one sees everything committed before the lock was acquired.
    update sluice.export as e set verified_at = clock_timestamp() where e.export_id = v_export_id;
    execute format(
        'with compared as (
            -- An archive partitioned by time may hold an id twice: then both rows must be in the lake.
            select m.msg_id,
                min(m.archived_at) as archived_at,
                bool_or(found.msg_id is not null) as is_found,
                bool_and(found.hash is not distinct from sha256(convert_to(concat_ws(
                    E''\n'',
                    m.msg_id,
                    m.read_ct,
                    trunc(extract(epoch from m.enqueued_at) * 1000000),
                    coalesce(trunc(extract(epoch from m.last_read_at) * 1000000)::text, ''''),
                    trunc(extract(epoch from m.archived_at) * 1000000),
                    trunc(extract(epoch from m.vt) * 1000000),
                    coalesce(m.message::text, ''''),
                    coalesce(m.headers::text, '''')
                ), ''UTF8''))) as is_equal
            from pgmq.%I as m
            -- The lake may hold another message of this id, from an earlier queue of this name.
            left join unnest($1, $2, $3) as found (msg_id, enqueued_us, hash)
                on found.msg_id = m.msg_id and found.enqueued_us = extract(epoch from m.enqueued_at) * 1000000
            where m.msg_id = any ($1)
            group by m.msg_id
        ),
        marked as (
            insert into sluice.exported_page as p (export_id, page, msg_ids, archived_from)
            select $4, c.msg_id / 256, range_agg(int8range(c.msg_id, c.msg_id, ''[]'')), min(c.archived_at)
            from compared as c
            where c.is_equal
            group by c.msg_id / 256
            order by c.msg_id / 256
            on conflict on constraint exported_page_pkey do update
            set msg_ids = p.msg_ids + excluded.msg_ids, archived_from = least(p.archived_from, excluded.archived_from)
        )
        select count(*) filter (where c.is_equal),
            coalesce(array_agg(c.msg_id order by c.msg_id) filter (where c.is_found and not c.is_equal), ''{}'')
        from compared as c',
        pgmq.format_table_name(queue_name, 'a')
    )
    using msg_ids, enqueued_us, hashes, v_export_id
    into verified, different;
end;
$$;

comment on function sluice.verify_exported(text, text, bigint[], bigint[], bytea[]) is
    'Mark archived messages as verified whose rows in the lake have equal msg_id, enqueued_at in microseconds and hash; returns their number, and the messages that differ.';
revoke execute on function sluice.verify_exported(text, text, bigint[], bigint[], bytea[]) from public;
grant execute on function sluice.verify_exported(text, text, bigint[], bigint[], bytea[]) to sluice_admin;
