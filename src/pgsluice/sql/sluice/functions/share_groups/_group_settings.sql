create or replace function sluice._group_settings(i_group sluice.share_group, i_options jsonb)
returns sluice.share_group
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_options constant text[] := array[
        'lease', 'max_attempts', 'max_deliveries', 'backoff', 'backoff_base', 'backoff_max', 'backoff_jitter',
        'unhandled', 'key', 'when_waiting', 'start'
    ];
    v_group sluice.share_group;
    v_wrong text;
begin
    v_group := sluice._with_options(i_group, i_options, v_options, 'a share group');
    v_group.lease := coalesce(v_group.lease, '30 seconds');
    v_group.max_attempts := coalesce(v_group.max_attempts, 5);
    v_group.max_deliveries := coalesce(v_group.max_deliveries, least(3 * v_group.max_attempts::bigint, 2147483647));
    v_group.backoff := coalesce(v_group.backoff, 'exponential');
    v_group.backoff_base := coalesce(v_group.backoff_base, '1 second');
    v_group.backoff_max := coalesce(v_group.backoff_max, '10 minutes');
    v_group.backoff_jitter := coalesce(v_group.backoff_jitter, true);
    v_group.when_waiting := coalesce(v_group.when_waiting, 'block');
    v_group.unhandled := coalesce(v_group.unhandled, 'accept');
    v_group.types := coalesce(v_group.types, '{}');
    v_group.has_others := coalesce(v_group.has_others, false);
    v_wrong := case
        when v_group.lease <= '0' or v_group.lease > '100 years' then format('a lease of %s', v_group.lease)
        when v_group.max_attempts < 1 then format('max_attempts %s', v_group.max_attempts)
        when v_group.max_deliveries < 1 then format('max_deliveries %s', v_group.max_deliveries)
        when v_group.backoff not in ('constant', 'linear', 'exponential') then format('a backoff %L', v_group.backoff)
        when v_group.backoff_base not between '0' and '100 years' then format('a backoff_base of %s', v_group.backoff_base)
        when v_group.backoff_max not between '0' and '100 years' then format('a backoff_max of %s', v_group.backoff_max)
        when v_group.when_waiting not in ('block', 'skip', 'park') then format('when_waiting %L', v_group.when_waiting)
        when v_group.unhandled not in ('accept', 'leave', 'dead-letter') then format('unhandled %L', v_group.unhandled)
    end;
    if v_wrong is not null then
        raise exception using
            errcode = '22023',
            message = format('a share group cannot have %s', v_wrong),
            hint = 'lease more than 0; max_attempts and max_deliveries 1 or more; backoff constant, linear or exponential; no time over 100 years; '
                'when_waiting block, skip or park; unhandled accept, leave or dead-letter';
    end if;
    -- The canonical text of a jsonpath has quoted names. Filters, functions and wildcards are refused: they can be slow or fail.
    if v_group.key not in ('ev_type', 'ev_data', 'ev_extra1', 'ev_extra2', 'ev_extra3', 'ev_extra4')
        and not (v_group.key like '$%' and v_group.key::jsonpath::text ~ E'^\\$(\\."([^"\\\\]|\\\\.)*"|\\[[0-9]+\\])*$')
    then
        raise exception using
            errcode = '22023',
            message = format('a share group cannot have the key %L', v_group.key),
            hint = 'use ev_type, ev_data, ev_extra1 to ev_extra4, or a path into ev_data such as $.customer.id or $.lines[0].sku';
    end if;
    return v_group;
end;
$$;

comment on function sluice._group_settings(sluice.share_group, jsonb) is
    'Return the row of a share group with these options; null means the default.';
revoke execute on function sluice._group_settings(sluice.share_group, jsonb) from public;
grant execute on function sluice._group_settings(sluice.share_group, jsonb) to pgq_admin, sluice_admin;
