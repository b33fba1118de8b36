create or replace function pgq._trigger_when(value_type regtype, value text)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if value_type <> 'boolean'::regtype then
        raise exception using
            errcode = 'PQ007',
            message = format('when= query result must be boolean, got=%s', value_type::oid),
            detail = format('The expression is of type %s.', value_type),
            hint = 'make it a comparison';
    elsif value is null then
        raise exception using
            errcode = 'PQ007',
            message = 'when= should not be NULL',
            detail = 'The expression is neither true nor false for this row.',
            hint = 'make it (...) is true';
    end if;
    return value::boolean;
end;
$$;

comment on function pgq._trigger_when(regtype, text) is
    'Return the value of a trigger''s when= expression; raise an error unless it is true or false.';
revoke execute on function pgq._trigger_when(regtype, text) from public;
grant execute on function pgq._trigger_when(regtype, text) to public;
