-- Of a statement that its statement_timeout would cancel, the last tenth is left for the read and the reply: an empty result
-- lets the caller poll again, an error does not.
create or replace function pgmq._poll_deadline(max_poll_seconds integer)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Null means the default, so that every call returns.
    v_deadline constant timestamptz := clock_timestamp() + make_interval(secs => coalesce(max_poll_seconds, 5));
    v_timeout constant interval := current_setting('statement_timeout')::interval;
begin
    return case
        when v_timeout > '0' then least(v_deadline, statement_timestamp() + v_timeout * 0.9)
        else v_deadline
    end;
end;
$$;

comment on function pgmq._poll_deadline(integer) is
    'Return the time until which a function that polls may wait: max_poll_seconds from now, at most 90 % of statement_timeout.';
revoke execute on function pgmq._poll_deadline(integer) from public;
grant execute on function pgmq._poll_deadline(integer) to sluice_admin, sluice_reader;
