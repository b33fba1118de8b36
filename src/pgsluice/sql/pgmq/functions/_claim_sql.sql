-- The heart of read and pop: which messages, and locked. README.md explains the two indexes.
--
-- Calls: nothing. Reads: the queue's table, one entry of its index of deferred messages.
create or replace function pgmq._claim_sql(queue_table text, due_by timestamptz)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- What is due beyond this number is taken in the order in which it became due: sorting all of it by msg_id would make
    -- each read pay for the whole of it.
    v_due_max constant integer := 1000;
    v_first_due timestamptz;
    v_ready text := 'select ready.msg_id
        from pgmq.%1$I as ready
        where ready.vt <= ready.enqueued_at
          and ready.vt <= $1
          and ($3 is null or $3 = ''{}'' or ready.message @> $3)
        order by ready.msg_id
        limit $2
        for update skip locked';
begin
    -- The end of the index, and not "is there one": for that the planner might read the table.
    execute format(
        'select deferred.vt from pgmq.%I as deferred where deferred.vt > deferred.enqueued_at order by deferred.vt limit 1',
        queue_table
    )
    into v_first_due;
    if v_first_due is null or v_first_due > due_by then
        return format(v_ready, queue_table);
    end if;
    return format(
        'select claimed.msg_id
         from (
            select * from (' || v_ready || ') as ready
            union all
            select * from (
                select due.msg_id
                from pgmq.%1$I as due
                where due.msg_id = any (array(
                        select deferred.msg_id
                        from pgmq.%1$I as deferred
                        where deferred.vt > deferred.enqueued_at
                          and deferred.vt <= $1
                        order by deferred.vt
                        limit greatest($2, %2$s)
                    ))
                  and due.vt <= $1
                  and ($3 is null or $3 = ''{}'' or due.message @> $3)
                order by due.msg_id
                limit $2
                for update skip locked
            ) as due
         ) as claimed
         order by claimed.msg_id
         limit $2',
        queue_table, v_due_max
    );
end;
$$;

comment on function pgmq._claim_sql(text, timestamptz) is
    'The text of the query that locks the visible messages with the lowest ids: $1 now, $2 how many, $3 what they contain.';
revoke execute on function pgmq._claim_sql(text, timestamptz) from public;
grant execute on function pgmq._claim_sql(text, timestamptz) to sluice_admin, sluice_reader;
