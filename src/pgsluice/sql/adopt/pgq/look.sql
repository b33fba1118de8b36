-- Collects PgQ's objects in temporary tables that the other steps read. Changes nothing else.
create temporary table adopted_log (
    queue_name text,
    queue_id integer,
    tables bigint,
    bytes bigint
) on commit drop;

do $$
begin
    -- If the table or the right to read it is missing, objections.sql reports it.
    if not coalesce(has_table_privilege(to_regclass('pgq.queue'), 'select'), false) then
        return;
    end if;
    insert into adopted_log
    select q.queue_name, q.queue_id, count(c.oid), sum(pg_table_size(c.oid))
    from pgq.queue as q
    left join pg_class as c
        on c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and c.relname ~ format('^event_%s_[0-9]+$', q.queue_id)
    group by q.queue_name, q.queue_id;
end;
$$;

-- Every function in the schema: replaced in place, dropped (and perhaps created again), or kept because it is not
-- PgQ's. Internal functions may have other argument names here, which cannot be changed in place, and clients do not
-- call them.
create temporary table adopted_log_function on commit drop as
with
here as (
    select to_regprocedure(signature) as oid
    from unnest(current_setting('sluice.functions_here')::text[]) as signature
),
-- Functions of PgQ versions from 3.2 on that this release does not have in this form.
gone as (
    select to_regprocedure(signature) as oid
    from unnest(array[
        'pgq._urlencode(text)',
        'pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text)',
        'pgq.logtriga()'
    ]) as signature
)
select
    p.oid,
    p.oid::regprocedure::text as signature,
    p.proowner,
    case
        when here.oid is not null and p.proname !~ '^_' then 'replace'
        when here.oid is not null or gone.oid is not null or member.objid is not null then 'drop'
        else 'keep'
    end as action
from pg_proc as p
left join here on here.oid = p.oid
left join gone on gone.oid = p.oid
left join pg_depend as member
    on member.classid = 'pg_proc'::regclass
    and member.objid = p.oid
    and member.deptype = 'e'
    and member.refclassid = 'pg_extension'::regclass
    and member.refobjid = (select e.oid from pg_extension as e where e.extname = 'pgq')
where p.pronamespace = 'pgq'::regnamespace;

select set_config(
    'sluice.functions_kept', (select coalesce(string_agg(f.oid::text, ' '), '') from adopted_log_function as f where f.action = 'keep'), true
);

insert into adopted_table
select format('pgq.%I', c.relname)
from pg_class as c
where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r';
