create or replace function sluice._require_limits(i_limits sluice.queue_settings)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_weights integer[] := i_limits.priority_weights;
    v_bytes_max constant integer := 63 - octet_length('_level9_vt_idx');
    v_message text;
    v_hint text;
begin
    if sluice._limits(i_limits) = '{}' then
        return;
    elsif i_limits.fleet_concurrency < 1 then
        v_message := format('fleet_concurrency is %s', i_limits.fleet_concurrency);
        v_hint := 'use 1 or more, or null for no limit';
    elsif i_limits.key_concurrency < 1 then
        v_message := format('key_concurrency is %s', i_limits.key_concurrency);
        v_hint := 'use 1 or more, or null for no limit';
    elsif i_limits.rate < 1 then
        v_message := format('rate is %s', i_limits.rate);
        v_hint := 'use 1 or more, or null for no limit';
    elsif i_limits.rate is not null
        and (i_limits.rate_interval is null or i_limits.rate_interval <= '0' or i_limits.rate_interval > '100 years')
    then
        v_message := format('rate_interval is %s', coalesce(i_limits.rate_interval::text, 'null'));
        v_hint := 'use more than 0 and up to 100 years';
    elsif i_limits.when_waiting not in ('block', 'skip', 'park') then
        v_message := format('when_waiting is %L', i_limits.when_waiting);
        v_hint := 'use block, skip or park, or null where messages of a key have no order';
    elsif i_limits.when_waiting is not null and i_limits.key_concurrency > 1 then
        v_message := format('key_concurrency is %s where messages of a key are claimed in order', i_limits.key_concurrency);
        v_hint := 'leave it out, as order means one at a time, or leave out when_waiting';
    elsif v_weights is not null
        and (
            coalesce(array_ndims(v_weights), 0) <> 1
            or array_lower(v_weights, 1) <> 1
            or cardinality(v_weights) not between 2 and 9
            or array_position(v_weights, null) is not null
            or 0 > any (v_weights)
            or 1000000 < any (v_weights)
            or 0 = all (v_weights)
        )
    then
        v_message := format('priority_weights are %s', v_weights);
        v_hint := 'use 2 to 9 numbers, 0 to 1000000, at least one above 0: that of the most urgent level first';
    elsif v_weights is not null and num_nonnulls(i_limits.key_concurrency, i_limits.when_waiting) > 0 then
        v_message := 'a queue has priorities or limits of its keys, not both';
        v_hint := 'use a queue for each priority, or leave one of them out';
    elsif octet_length(i_limits.queue_table) > v_bytes_max then
        v_message := format('the name of queue %L is too long for limits', i_limits.queue_name);
        v_hint := format('they need indexes by its name; %s bytes are possible', v_bytes_max - octet_length('q_'));
    else
        return;
    end if;
    raise exception using errcode = '22023', message = v_message, hint = v_hint;
end;
$$;

comment on function sluice._require_limits(sluice.queue_settings) is 'Raise an error for invalid limits.';
revoke execute on function sluice._require_limits(sluice.queue_settings) from public;
grant execute on function sluice._require_limits(sluice.queue_settings) to sluice_admin;
