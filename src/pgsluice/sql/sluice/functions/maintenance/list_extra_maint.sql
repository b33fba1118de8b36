/*
 * The functions that logs name in queue_extra_maint, and why one is not called. A role that administers logs writes the
 * name, and the runner of maintenance, often a superuser, calls the function with its own rights. So the role must not be
 * able to choose code:
 *   - The function with exactly one parameter of type text: an overload of another role cannot match a call better.
 *   - It and its schema belong to a role that the runner trusts: sluice._trusts. The owner of a schema could replace the
 *     function between this check and the call.
 *   - Every role that may write the column may also call it, so that the runner lends none of its rights.
 *   - It is not built in, nor written in C: such functions run a text as SQL (ts_stat, dblink) or read a file of that
 *     name, and the role chooses the name of the log.
 */
create or replace function sluice.list_extra_maint(
    runner oid default null, out log_name text, out extra_position bigint, out function_name text, out refusal text
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select q.queue_name, extra.position, extra.name,
        case
            when p.oid is null then format('there is no function %s(text)', pgq.quote_fqname(extra.name))
            when not sluice._trusts(v.runner, p.proowner) then
                format('it belongs to %I, whose code would get the rights of %s', pg_get_userbyid(p.proowner), runner.name)
            when not sluice._trusts(v.runner, n.nspname::text) then
                format('its schema belongs to %I, who could replace it', pg_get_userbyid(n.nspowner))
            when n.nspname = 'pg_catalog' or n.nspname = 'information_schema' or l.lanname = 'c' or l.lanname = 'internal' then
                'it is built in or written in C, and does with any text what the rights of its caller allow'
            when writer.name is not null then
                format('%s may write queue_extra_maint, but may not call it', writer.name)
        end
    from pgq.queue as q
    cross join (values (coalesce(list_extra_maint.runner, quote_ident(current_user)::regrole::oid))) as v (runner)
    cross join unnest(q.queue_extra_maint) with ordinality as extra (name, position)
    cross join lateral (select coalesce(quote_ident(pg_get_userbyid(v.runner)), 'its caller')) as runner (name)
    -- In the catalog, because to_regprocedure raises an error for a schema that the current role may not use.
    -- Split as pgq.quote_fqname does.
    left join pg_namespace as n
        on n.nspname = case strpos(extra.name, '.') when 0 then 'public' else split_part(extra.name, '.', 1) end
    left join pg_proc as p
        on p.pronamespace = n.oid and p.proname = substr(extra.name, strpos(extra.name, '.') + 1) and p.prokind = 'f'
        and p.pronargs = 1 and p.proargtypes[0] = 'text'::regtype
    left join pg_language as l on l.oid = p.prolang
    left join lateral (
        select min(case when a.grantee = 0 then 'public' else a.grantee::regrole::text end)
        from (
            select x.grantee, x.privilege_type
            from pg_class as c
            cross join lateral aclexplode(c.relacl) as x
            where c.oid = 'pgq.queue'::regclass
            union all
            select x.grantee, x.privilege_type
            from pg_attribute as t
            cross join lateral aclexplode(t.attacl) as x
            where t.attrelid = 'pgq.queue'::regclass and t.attname = 'queue_extra_maint'
        ) as a
        where a.privilege_type = 'UPDATE'
          and case
              when a.grantee <> 0 then
                  not has_function_privilege(a.grantee, p.oid, 'execute') and not sluice._trusts(v.runner, a.grantee)
              else not exists (
                  select
                  from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as f
                  where f.grantee = 0 and f.privilege_type = 'EXECUTE'
              )
          end
    ) as writer (name) on true
    where extra.name is not null
    order by q.queue_name, extra.position;
$$;

comment on function sluice.list_extra_maint(oid) is
    'Return the functions that logs name in queue_extra_maint, in the order in which to call them with the log''s name, and the reason why this runner of maintenance (null: the current role) does not call one, or null.';
revoke execute on function sluice.list_extra_maint(oid) from public;
grant execute on function sluice.list_extra_maint(oid) to pgq_admin, sluice_admin;
