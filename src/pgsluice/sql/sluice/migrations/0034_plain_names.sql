-- breaking: no
-- Columns of share groups and functions of queues that were renamed.
alter table sluice.claim rename column mail_snapshot to backlog_snapshot;
alter table sluice.outcome rename column is_mail to is_backlog;
alter index sluice.outcome_mail_idx rename to outcome_backlog_idx;

do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        join pg_namespace as n on n.oid = p.pronamespace
        where n.nspname = 'sluice'
          and p.proname = any (array['hand_back', 'next_room', 'unanswered_starts', 'notifier_look', 'ticker_sign', '_room'])
    loop
        execute format('drop function %s', v_function);
    end loop;
end;
$$;
