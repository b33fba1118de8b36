-- breaking: no
-- Replaced by functions that also compare enqueued_at, which messages of a queue that was created again do not share.
drop function if exists sluice.delete(text, bigint, integer);
drop function if exists sluice.delete(text, bigint[], integer[]);
drop function if exists sluice.archive(text, bigint, integer);
drop function if exists sluice.archive(text, bigint[], integer[]);
drop function if exists sluice.extend(text, bigint, integer, integer);
drop function if exists sluice.extend(text, bigint[], integer[], integer);
drop function if exists sluice.release(text, bigint, integer, integer);
drop function if exists sluice.release(text, bigint[], integer[], integer);
drop function if exists sluice.reject(text, bigint, integer, text, text);
drop function if exists sluice.lock_messages(text, bigint[], integer[]);
drop function if exists sluice.release_uncounted(text, bigint[], integer[], double precision);
drop function if exists sluice.begin_attempts(text, bigint[], integer[], text, integer);
drop function if exists sluice._settle_sql(text, bigint[], integer[], text);
drop function if exists sluice._tried_messages(text, bigint[], integer[], integer);
drop function if exists sluice._require_claims(bigint[], integer[]);
drop function if exists sluice._missed_outcome(text, bigint);

-- The settlers of queues, which the installation creates again.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        where p.pronamespace = 'pgmq'::regnamespace
          and p.proname ~ '^a_'
          and oidvectortypes(p.proargtypes) = 'bigint, integer, boolean'
    loop
        execute format('drop function %s', v_function);
    end loop;
end;
$$;
