/*
 * By id if the interval is a whole number, else by time: the queue by enqueued_at, its archive by archived_at.
 *
 * A message's id is unique in the queue: by the primary key where partitions are id ranges, and by "generated always"
 * where they are time ranges, which no constraint can span. There, a message is looked up by its id through an index in
 * each partition, because the id does not tell the time: a delete took 0.3 ms with 6 partitions, 1.1 with 50 and 3.1
 * with 100 (by ids 0.2 with 100; 2 cores, PostgreSQL 18, medians of 25, 2026-11-21). Rejected: the id range of each
 * partition as a constraint for partition pruning. A transaction that starts early and sends late has an old time and a
 * new id, and would fail. Instead sluice.maintain() drops empty partitions, so that there are few.
 *
 * The default partitions keep PGMQ's lower-case names, which tools know. So this function checks that no queue uses
 * them; validate_queue_name checks the opposite.
 *
 * Calls: validate_queue_name, _partman_create, sluice._manage_partitions, _grant_queue, _create_reader. Writes:
 * pgmq.meta.
 */
create or replace function pgmq.create_partitioned(
    queue_name text, partition_interval text default '10000', retention_interval text default '100000',
    premake integer default 4
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
    v_with_partman boolean;
    v_is_time boolean;
    v_was_time boolean;
    v_is_new boolean := false;
begin
    perform pgmq.validate_queue_name(queue_name);
    perform pgmq.acquire_queue_lock(queue_name);
    v_with_partman := pgmq._with_partman();
    perform sluice._require_partition_settings(partition_interval, retention_interval, premake);
    v_is_time := sluice._is_time_interval(partition_interval);

    perform pgmq._require_own_table(v_queue);
    perform pgmq._require_own_table(v_archive);
    if to_regclass(format('pgmq.%I', v_queue)) is not null then
        v_was_time := (sluice._partition_key(format('pgmq.%I', v_queue)::regclass)).is_time;
        if v_was_time is distinct from v_is_time
            or not exists (select from sluice.partitioned_table as p where p.table_name = v_queue)
        then
            raise exception using
                errcode = 'duplicate_table',
                message = format('queue %L exists and cannot be partitioned in this way', queue_name),
                detail = case
                    when v_was_time is null then 'It is not partitioned.'
                    when v_was_time = v_is_time then 'sluice.maintain() does not maintain its partitions.'
                    when v_was_time then 'It is partitioned by time.'
                    else 'It is partitioned by msg_id.'
                end,
                hint = 'create a queue with another name; to partition only the archive, call pgmq.convert_archive_partitioned()';
        end if;
    else
        perform pgmq._create_partitioned_tables(queue_name, v_is_time);
        v_is_new := true;
        insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
        values (create_partitioned.queue_name, true, false)
        on conflict on constraint meta_queue_name_key do update set is_partitioned = true;
    end if;

    if v_with_partman then
        perform pgmq._partman_create(v_queue::name, partition_interval, retention_interval, premake);
        perform pgmq._partman_create(v_archive::name, partition_interval, retention_interval, premake);
    else
        perform sluice._manage_partitions(v_queue::name, queue_name, partition_interval, retention_interval, premake);
        perform sluice._manage_partitions(v_archive::name, queue_name, partition_interval, retention_interval, premake);
    end if;
    perform pgmq._grant_queue(queue_name);
    if to_regproc(format('pgmq.%I', v_queue)) is null then
        perform pgmq._create_reader(queue_name);
    end if;
    if v_is_new then
        perform pgmq._grant_creator(queue_name);
    end if;
end;
$$;

comment on function pgmq.create_partitioned(text, text, text, integer) is
    'Create a work queue and its archive, partitioned by number of messages or by time; sluice.maintain() creates and drops the partitions. Changes the settings of an existing partitioned queue.';
revoke execute on function pgmq.create_partitioned(text, text, text, integer) from public;
grant execute on function pgmq.create_partitioned(text, text, text, integer) to sluice_admin;
