-- Queues of releases before the functions ran with the rights of the schemas' owner belong to their creators. This
-- transfers them to that owner; the former owner keeps all rights on the rows. Exceptions, which verify lists: tables
-- with code of an untrusted role, tables whose row security would then apply to the former owner, and tables that
-- pg_partman maintains with the rights of that role.
--
-- Each transfer locks the table and its indexes, so one transaction transfers a bounded number of queues, in random
-- order, so that failing ones do not block the others. The setting sluice.left_owned then tells if more may remain for
-- the next transaction.
--
-- Calls nothing that could change the role: the list is computed first, and then only DDL runs.
select pg_catalog.set_config('client_min_messages', pg_catalog.current_setting('sluice.messages_before'), true);
do $$
declare
    v_tables_max constant integer := greatest(sluice._lock_slots() / 4 / 10, 5);
    v_handed_over integer := 0;
    v_owner name := current_user;
    v_tables record;
    v_names text[];
    v_owners name[];
    v_lock_timeout_before text := current_setting('lock_timeout');
begin
    select array_agg(t.name), array_agg(t.owner)
    into v_names, v_owners
    from (
        select t.name, t.owner
        from (
            select c.oid, format('pgmq.%I', part.relname) as name, pg_get_userbyid(part.relowner) as owner
            from pgmq.meta as m
            cross join (values ('q'), ('a')) as k (kind)
            join pg_class as c
                on c.relnamespace = 'pgmq'::regnamespace
                and c.relname = lower(k.kind || '_' || m.queue_name)::name
                and c.relkind in ('r', 'p')
            cross join lateral (
                select t.relid::oid from pg_partition_tree(c.oid::regclass) as t where c.relkind = 'p' union select c.oid
            ) as tree (relid)
            join pg_class as part on part.oid = tree.relid
            join pg_roles as r on r.oid = part.relowner
            where part.relowner <> v_owner::regrole
              and (
                r.rolsuper
                or not part.relrowsecurity
                    and not exists (select from pg_policy as p where p.polrelid = part.oid)
                    and (
                        c.relkind = 'r'
                        or exists (select from sluice.partitioned_table as p where p.table_name = c.relname)
                    )
              )
            order by random()
            offset 0 -- filter before the slow conditions
        ) as t
        where pgmq._foreign_code(t.oid::regclass) is null
        limit v_tables_max
    ) as t;

    perform set_config('role', current_setting('sluice.role_before'), true);
    perform set_config('lock_timeout', '2s', true);
    for i in 1 .. coalesce(cardinality(v_names), 0)
    loop
        begin
            execute format('alter table %s owner to %I', v_names[i], v_owner);
            if not (select r.rolsuper from pg_roles as r where r.rolname = v_owners[i]) then
                execute format(
                    'grant select, insert, update, delete, truncate, references on %s to %I', v_names[i], v_owners[i]
                );
            end if;
            v_handed_over := v_handed_over + 1;
        exception
            when insufficient_privilege or lock_not_available then
                raise notice using
                    message = format('table %s still belongs to %I: %s', v_names[i], v_owners[i], sqlerrm),
                    hint = format('alter table %s owner to %I', v_names[i], v_owner);
        end;
    end loop;
    perform set_config('lock_timeout', v_lock_timeout_before, true);
    perform set_config('role', v_owner::text, true);
    perform set_config('sluice.left_owned', (v_handed_over > 0 and cardinality(v_names) = v_tables_max)::text, true);
end;
$$;
