-- The tables, sequences, views and types of our schemas as rows of text: kind, table, name, definition. They are equal
-- on every version of PostgreSQL and for every owner. catalog.txt has those of this release: no installation would
-- correct a difference, because migrations run once.
--
-- Functions, comments and rights of schemas are compared by installing: see fingerprint.sql. Tables of queues and logs
-- are compared by problems.sql. Row-level security counts where no policy shows the rows to anyone.
with
relation as materialized (
    select c.*, n.nspowner, pg_catalog.format('%I.%I', n.nspname, c.relname) as name
    from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
      and c.relkind in ('r', 'p', 'v', 'S', 'c')
      and not (n.nspname = 'pgmq' and c.relname ~ '^[qa]_')
      and not (n.nspname = 'pgq' and c.relname ~ '^(event|tick)_[0-9]+')
      and not (n.nspname = 'sluice' and c.relname ~ '^stage_[0-9]+')
),
line (kind, owner, name, definition) as (
    select case when r.relkind in ('r', 'p') then 'table' when r.relkind = 'v' then 'view' when r.relkind = 'S' then 'sequence' else 'type' end,
        r.name, '', pg_catalog.concat_ws(
            ' ',
            case r.relpersistence when 'u' then 'unlogged' end,
            case
                when r.relrowsecurity and not exists (select from pg_catalog.pg_policy as p where p.polrelid = r.oid)
                    then 'row level security'
            end,
            -- A sequence of a column belongs to the owner of the table.
            case when r.relowner <> r.nspowner and not (r.relkind = 'S' and exists (
                select
                from pg_catalog.pg_depend as d
                where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = r.oid and d.deptype in ('a', 'i')
            )) then pg_catalog.format('owner %I', pg_catalog.pg_get_userbyid(r.relowner)) end
        )
    from relation as r
    union all
    select 'column', r.name, pg_catalog.quote_ident(a.attname), pg_catalog.concat(
            pg_catalog.format_type(a.atttypid, a.atttypmod),
            case when a.attnotnull then ' not null' end,
            case
                when a.attidentity <> '' then ' generated as identity'
                when a.attgenerated <> '' then pg_catalog.format(' generated always as %s stored', pg_catalog.pg_get_expr(d.adbin, d.adrelid))
                else ' default ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid)
            end
        )
    from relation as r
    join pg_catalog.pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_catalog.pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where r.relkind <> 'S'
    union all
    -- Indexes of constraints are below.
    select case when i.indisvalid then 'index' else 'invalid index' end, r.name, i.indexrelid::pg_catalog.regclass::text,
        substring(pg_catalog.pg_get_indexdef(i.indexrelid), 'CREATE (?:UNIQUE )?INDEX')
            || substring(pg_catalog.pg_get_indexdef(i.indexrelid), ' USING .*$')
    from relation as r
    join pg_catalog.pg_index as i on i.indrelid = r.oid
    where not exists (select from pg_catalog.pg_constraint as k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
    union all
    select 'constraint', r.name, pg_catalog.quote_ident(k.conname), pg_catalog.pg_get_constraintdef(k.oid)
    from relation as r
    join pg_catalog.pg_constraint as k on k.conrelid = r.oid
    where k.contype <> 'n' -- not null, since PostgreSQL 18
    union all
    select 'parent', r.name, i.inhparent::pg_catalog.regclass::text, ''
    from relation as r
    join pg_catalog.pg_inherits as i on i.inhrelid = r.oid
    union all
    select
        case when t.tgtype & 2 = 2 and t.tgtype & 1 = 1 then 'row trigger before' else 'trigger' end,
        r.name, pg_catalog.quote_ident(t.tgname),
        case t.tgenabled when 'D' then 'disabled' when 'R' then 'on replicas only' else '' end
    from relation as r
    join pg_catalog.pg_trigger as t on t.tgrelid = r.oid and not t.tgisinternal
    union all
    select 'rule', r.name, pg_catalog.quote_ident(u.rulename), ''
    from relation as r
    join pg_catalog.pg_rewrite as u on u.ev_class = r.oid
    where u.rulename <> '_RETURN'
    union all
    select 'grant', r.name, g.privilege, g.grantee
    from relation as r
    cross join lateral (
        select a.privilege_type as privilege, case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end as grantee
        from pg_catalog.aclexplode(r.relacl) as a
        where a.grantee not in (r.relowner, r.nspowner) and r.relkind <> 'c'
        union
        select pg_catalog.format('%s (%I)', a.privilege_type, c.attname),
            case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end
        from pg_catalog.pg_attribute as c
        cross join lateral pg_catalog.aclexplode(c.attacl) as a
        where c.attrelid = r.oid and c.attnum > 0 and not c.attisdropped and a.grantee not in (r.relowner, r.nspowner)
    ) as g
    where g.privilege <> 'MAINTAIN' -- since PostgreSQL 17, part of ALL
)
select l.kind, l.owner, l.name, l.definition
from line as l
order by l.owner collate "C", l.kind collate "C", l.name collate "C", l.definition collate "C";
