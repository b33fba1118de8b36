/*
 * Samples are written to the partition of the time, emptied if it has those of an earlier period. While a session uses that
 * partition, or pg_dump runs, the previous one is written to: no call waits.
 *
 * Security definer: samples are written by this function only.
 */
create or replace function sluice._store_samples(i_found sluice.sample_figures[], i_cursor bigint, i_at timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_slot integer;
    v_starts_at timestamptz;
    v_oldest timestamptz;
    v_ids constant bigint[] := array(
        select hash_record_extended(row(f.kind, case when f.kind = 'queue' then lower(f.name) else f.name end, f.reader_name), 0)
        from unnest(i_found) as f
    );
begin
    perform setval('sluice.sample_cursor', i_cursor);
    for v_resolution in 0 .. 2
    loop
        select s.slot, s.starts_at into v_slot, v_starts_at from sluice._sample_slot(v_resolution, i_at) as s;
        -- The first row of the file is the oldest.
        execute format('select s.taken_at from sluice.sample_%s as s limit 1', v_slot) into v_oldest;
        if v_oldest < v_starts_at or v_oldest > i_at + interval '1 day' then
            if pgq._lock_tables(array[format('sluice.sample_%s', v_slot)]::regclass[], 'access exclusive'::text, 0) then
                execute format('truncate sluice.sample_%s', v_slot);
            else
                v_slot := 3 * v_resolution + (v_slot + 2) % 3;
            end if;
        end if;
        if v_resolution = 0 then
            insert into sluice.sample (
                slot, source_id, taken_at, length, ready, in_flight, delayed, oldest_ready_s, sent, finished, dead,
                lag_events, lag_s, pinned_bytes, retrying
            )
            select v_slot, v_ids[f.number], i_at, f.length, f.ready, f.in_flight, f.delayed, f.oldest_ready_s, f.sent, f.finished, f.dead,
                f.lag_events, f.lag_s, f.pinned_bytes, f.retrying
            from unnest(i_found) with ordinality as f (
                kind, name, reader_name, length, ready, in_flight, delayed, oldest_ready_s, sent, finished, dead,
                lag_events, lag_s, pinned_bytes, retrying, number
            );
            continue;
        end if;
        -- Those whose last sample of this resolution is of an earlier minute, or quarter of an hour.
        insert into sluice.sample (
            slot, source_id, taken_at, length, ready, in_flight, delayed, oldest_ready_s, sent, finished, dead,
            lag_events, lag_s, pinned_bytes, retrying
        )
        select v_slot, ids.source_id, i_at, m.length, m.ready, m.in_flight, m.delayed, m.oldest_ready_s,
            l.sent, l.finished, m.dead, m.lag_events, m.lag_s, m.pinned_bytes, m.retrying
        from unnest(v_ids) as ids (source_id)
        cross join (values ((array['1 minute', '15 minutes'])[v_resolution]::interval)) as resolution (span)
        cross join lateral (
            select coalesce(max(n.taken_at), '-infinity') as taken_at
            from generate_series(3 * v_resolution, 3 * v_resolution + 2) as slots (slot)
            cross join lateral (
                select s.taken_at
                from sluice.sample as s
                where s.slot = slots.slot and s.source_id = ids.source_id and s.taken_at <= i_at
                order by s.taken_at desc
                limit 1
            ) as n
        ) as newest
        cross join lateral (
            select max(s.length) as length, max(s.ready) as ready, max(s.in_flight) as in_flight, max(s.delayed) as delayed,
                max(s.oldest_ready_s) as oldest_ready_s, max(s.dead) as dead, max(s.lag_events) as lag_events,
                max(s.lag_s) as lag_s, max(s.pinned_bytes) as pinned_bytes, max(s.retrying) as retrying,
                max(s.taken_at) as last_at
            from sluice.sample as s
            where s.slot between 3 * v_resolution - 3 and 3 * v_resolution - 1
              and s.source_id = ids.source_id
              and s.taken_at > i_at - resolution.span
              and s.taken_at > newest.taken_at
              and s.taken_at <= i_at
        ) as m
        cross join lateral (
            select s.sent, s.finished
            from sluice.sample as s
            where s.slot between 3 * v_resolution - 3 and 3 * v_resolution - 1
              and s.source_id = ids.source_id
              and s.taken_at = m.last_at
            limit 1
        ) as l
        where newest.taken_at = '-infinity'
           or date_bin(resolution.span, newest.taken_at, 'epoch'::timestamptz) < date_bin(resolution.span, i_at, 'epoch'::timestamptz);
    end loop;
    return cardinality(v_ids);
end;
$$;

comment on function sluice._store_samples(sluice.sample_figures[], bigint, timestamptz) is
    'Append samples and their summaries of a minute and of 15 minutes; the next call continues after the cursor.';
revoke execute on function sluice._store_samples(sluice.sample_figures[], bigint, timestamptz) from public;
grant execute on function sluice._store_samples(sluice.sample_figures[], bigint, timestamptz) to sluice_admin;
