/*
 * Adds a partition and moves the matching rows of the default partition to it. It is created as a table and then attached.
 *
 * Attaching a future range of time blocks no sender. If a sender could be inserting a message of that range, the lock must
 * wait for it: the sender has already chosen the default partition, which would no longer accept the message, and the send
 * would fail ("new row violates partition constraint"). A statement takes any number of ids, so no range of ids is far
 * enough ahead. Readers wait in either case, because they read the default partition.
 *
 * Locks: the parent against senders or against other DDL, then the default partition exclusively. Calls: _partition_key,
 * _partition_name.
 */
create or replace function sluice._attach_partition(parent regclass, starts_at bigint, ends_at bigint)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    v_table name;
    v_key record;
    v_from text;
    v_to text;
    v_leaf name;
    v_columns text;
    v_has_rows boolean;
    v_moved bigint := 0;
begin
    select c.relname into v_table from pg_class as c where c.oid = parent;
    select * into v_key from sluice._partition_key(parent);
    v_from := sluice._partition_literal(starts_at, v_key.is_time);
    v_to := sluice._partition_literal(ends_at, v_key.is_time);
    v_leaf := sluice._partition_name(v_table, starts_at, v_key.is_time);

    execute format(
        'lock table only pgmq.%I in %s mode',
        v_table,
        case
            -- now() of a running transaction is in the past; the second allows for a clock that is set back.
            when v_key.is_time and starts_at > extract(epoch from clock_timestamp() + interval '1 second') * 1000000
            then 'share update exclusive'
            else 'share row exclusive'
        end
    );
    execute format('lock table %s in access exclusive mode', v_key.default_partition);
    -- Attaching creates indexes and keys.
    execute format(
        'create table pgmq.%I (like pgmq.%I including defaults including constraints including generated including storage)',
        v_leaf, v_table
    );
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum)
    into v_columns
    from pg_attribute as a
    where a.attrelid = parent and a.attnum > 0 and not a.attisdropped and a.attgenerated = '';
    execute format(
        'select exists (select from %1$s as stray where stray.%2$I >= $1::%3$s and stray.%2$I < $2::%3$s)',
        v_key.default_partition, v_key.key_name, case when v_key.is_time then 'timestamptz' else 'bigint' end
    )
    into v_has_rows
    using v_from, v_to;
    if v_has_rows then
        -- A trigger on the rows would run with the owner's rights.
        perform pgmq._require_no_foreign_code(parent);
    end if;
    execute format(
        'with moved as (
            delete from %1$s as stray where stray.%2$I >= $1::%3$s and stray.%2$I < $2::%3$s returning %4$s
        )
        insert into pgmq.%5$I (%4$s) select %4$s from moved',
        v_key.default_partition, v_key.key_name, case when v_key.is_time then 'timestamptz' else 'bigint' end,
        v_columns, v_leaf
    )
    using v_from, v_to;
    get diagnostics v_moved = row_count;
    execute format(
        'alter table pgmq.%I attach partition pgmq.%I for values from (%L) to (%L)', v_table, v_leaf, v_from, v_to
    );
    perform pgmq._tune_storage(format('pgmq.%I', v_leaf)::regclass);
    return format('%s: %s to %s', v_leaf, v_from, v_to)
        || case when v_moved > 0 then format(', with %s rows of the default partition', v_moved) else '' end;
end;
$$;

comment on function sluice._attach_partition(regclass, bigint, bigint) is
    'Add a partition with this range, which must not overlap others, and move its rows of the default partition there.';
revoke execute on function sluice._attach_partition(regclass, bigint, bigint) from public;
grant execute on function sluice._attach_partition(regclass, bigint, bigint) to sluice_admin;
