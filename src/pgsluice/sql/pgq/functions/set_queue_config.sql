create or replace function pgq.set_queue_config(x_queue_name text, x_param_name text, x_param_value text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    if x_queue_name is null or x_param_name is null then
        raise exception using
            errcode = '22004',
            message = 'Invalid NULL value',
            hint = 'pass the names of the event log and of the setting';
    end if;
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(x_queue_name, 'NULL'),
            message = 'No such event queue',
            detail = format('There is no event log %L.', x_queue_name),
            hint = format('create it with pgq.create_queue(%L)', x_queue_name);
    end if;
    if x_param_name <> all (array[
        'ticker_max_count', 'ticker_max_lag', 'ticker_idle_period', 'ticker_paused', 'rotation_period', 'external_ticker'
    ]) then
        raise exception using
            errcode = '22023',
            message = format('cannot change parameter "%ss"', x_param_name), -- PgQ's text, with its extra letter
            hint = format('there is no %L; set ', x_param_name)
                || 'ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period or external_ticker';
    end if;
    if x_param_value is null then
        raise exception using
            errcode = '22004',
            message = 'query string argument of EXECUTE is null', -- PgQ's text
            detail = format('The value for %L is null.', x_param_name),
            hint = 'pass a value that is not null';
    end if;
    execute format(
        'update pgq.queue as q set %1$I = $1::%2$s where q.queue_id = $2', 'queue_' || x_param_name,
        case x_param_name
            when 'ticker_max_count' then 'integer'
            when 'ticker_paused' then 'boolean'
            when 'external_ticker' then 'boolean'
            else 'interval'
        end
    )
    using x_param_value, v_queue_id;
    return 1;
end;
$$;

comment on function pgq.set_queue_config(text, text, text) is
    'Change one setting of an event log: ticker_max_count, _max_lag, _idle_period, _paused, rotation_period, external_ticker. Returns 1.';
revoke execute on function pgq.set_queue_config(text, text, text) from public;
grant execute on function pgq.set_queue_config(text, text, text) to pgq_admin, sluice_admin;
