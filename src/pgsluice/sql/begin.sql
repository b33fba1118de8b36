-- After lock.sql, first of every installation and upgrade; everything up to end.sql is one transaction.

-- Not the session's search path: a better-matching function or operator in it would run with the installer's rights.
select
    pg_catalog.set_config('sluice.search_path_before', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Where the server converts no text, one row that is not UTF-8 would stop every reader of its queue.
do $$
begin
    if pg_catalog.current_setting('server_encoding') = 'SQL_ASCII' then
        raise exception using
            errcode = '0A000',
            message = pg_catalog.format('the encoding of database %I is SQL_ASCII', pg_catalog.current_database()),
            detail = 'The server does not convert text of this encoding, so clients cannot read what others have sent.',
            hint = 'install into a database with the encoding UTF8: create database ... template template0 encoding ''UTF8''';
    end if;
end;
$$;

-- Refuse schemas that pgsluice did not create: they have no ledger.
do $$
declare
    v_schema name;
begin
    if pg_catalog.to_regclass('sluice.migration') is not null then
        return;
    end if;
    for v_schema in
        select n.nspname
        from pg_catalog.pg_namespace as n
        where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
          and n.nspname <> all (pg_catalog.string_to_array(coalesce(pg_catalog.current_setting('sluice.adopting', true), ''), ' '))
        order by n.nspname
    loop
        raise exception using
            errcode = '42P06',
            message = pg_catalog.format('schema %I already exists and was not created by pgsluice', v_schema),
            detail = 'Installing over it could destroy what it holds.',
            hint = 'if it is PGMQ''s or PgQ''s, convert it with `pgsluice schema adopt`, which keeps its rows; else install into '
                'another database, or rename the schema: alter schema ... rename to ...';
    end loop;
end;
$$;

-- Roles are shared by all databases of the server, so a concurrent installer in another database may create them first.
do $$
declare
    v_role name;
begin
    foreach v_role in array array[
        'sluice_owner', 'sluice_admin', 'sluice_writer', 'sluice_reader', 'sluice_monitor',
        'pgq_reader', 'pgq_writer', 'pgq_admin'
    ]
    loop
        if pg_catalog.to_regrole(v_role::text) is not null then
            continue;
        end if;
        begin
            execute pg_catalog.format('create role %I nologin', v_role);
        exception
            when duplicate_object or unique_violation then
                null;
            when insufficient_privilege then
                raise notice 'role % is not created: % may not create roles; grants to it are skipped',
                    v_role, current_user;
        end;
    end loop;
end;
$$;

-- The server's monitoring role may see what ours may: figures without payloads.
do $$
begin
    if not pg_catalog.pg_has_role('pg_monitor', 'sluice_monitor', 'member') then
        grant sluice_monitor to pg_monitor;
    end if;
exception
    when insufficient_privilege or undefined_object or unique_violation then
        null;
end;
$$;

-- PgQ's administrators are readers and writers too. Memberships of existing roles are not changed.
do $$
begin
    if not pg_catalog.pg_has_role('pgq_admin', 'pgq_reader', 'member')
        or not pg_catalog.pg_has_role('pgq_admin', 'pgq_writer', 'member')
    then
        grant pgq_reader, pgq_writer to pgq_admin;
    end if;
exception
    when insufficient_privilege or undefined_object or unique_violation then
        null;
end;
$$;

-- All objects created below belong to sluice_owner if the installer can become that role: security definer functions
-- must not belong to a superuser.
do $$
declare
    v_schema name;
    v_owner name := current_user;
    v_role_before text := pg_catalog.current_setting('role');
begin
    perform pg_catalog.set_config('sluice.role_before', v_role_before, true);
    perform pg_catalog.set_config(
        'sluice.check_function_bodies_before', pg_catalog.current_setting('check_function_bodies'), true
    );
    perform pg_catalog.set_config('check_function_bodies', 'off', true);

    if pg_catalog.to_regrole('sluice_owner') is not null then
        begin
            if not pg_catalog.pg_has_role(current_user, 'sluice_owner', 'usage') then
                execute pg_catalog.format('grant sluice_owner to %I', current_user);
            end if;
            set local role sluice_owner;
            perform pg_catalog.set_config('role', v_role_before, true);
            v_owner := 'sluice_owner';
        exception
            when insufficient_privilege then
                raise notice '% cannot become sluice_owner and keeps the schemas itself', current_user;
        end;
    end if;

    foreach v_schema in array array['pgmq', 'pgq', 'pgq_coop', 'sluice']
    loop
        if pg_catalog.to_regnamespace(pg_catalog.quote_ident(v_schema)) is null then
            if not pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create') then
                raise exception using
                    errcode = '42501',
                    message = pg_catalog.format('permission denied for database %I', pg_catalog.current_database()),
                    detail = pg_catalog.format('Role %I may not create schemas in it.', current_user),
                    hint = pg_catalog.format(
                        'let its owner run: grant create on database %I to %I', pg_catalog.current_database(), current_user
                    );
            end if;
            execute pg_catalog.format('create schema %I authorization %I', v_schema, v_owner);
        elsif v_schema = any (pg_catalog.string_to_array(pg_catalog.current_setting('sluice.adopting', true), ' ')) then
            execute pg_catalog.format('alter schema %I owner to %I', v_schema, v_owner);
        end if;
    end loop;

    -- An upgrade runs as the owner of the existing schemas.
    select pg_catalog.pg_get_userbyid(n.nspowner)
    into v_owner
    from pg_catalog.pg_namespace as n
    where n.nspname = 'sluice';
    perform pg_catalog.set_config('role', v_owner::text, true);
end;
$$;

-- Up to hand_over.sql: what already exists, or never did, is no news.
select
    pg_catalog.set_config('sluice.messages_before', pg_catalog.current_setting('client_min_messages'), true),
    pg_catalog.set_config(
        'client_min_messages',
        case pg_catalog.current_setting('client_min_messages') when 'error' then 'error' else 'warning' end,
        true
    );

create table if not exists sluice.migration (
    version text primary key,
    checksum text not null,
    breaking text,
    applied_at timestamptz not null default pg_catalog.clock_timestamp()
);
comment on table sluice.migration is
    'What has been installed: one row per migration, the SHA-256 of its text, and why old clients cannot run on it (null: they can).';

grant usage on schema pgmq to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
grant usage on schema pgmq to pg_monitor;
grant usage on schema pgq, pgq_coop to public;
grant usage on schema sluice to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
grant usage on schema sluice to pgq_admin, pgq_reader, pgq_writer;
grant select on sluice.migration to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;

-- Queues are created by functions that run with the rights of the schemas' owner. Before, their creator owned them.
do $$
begin
    if pg_catalog.to_regrole('sluice_admin') is not null then
        revoke create on schema pgmq from sluice_admin;
    end if;
end;
$$;
