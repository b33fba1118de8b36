create or replace function pgq._trigger_options(
    operation text, moment text, level text, arguments text[],
    out skip boolean, out backup boolean, out deny boolean,
    out ignored text[], out pkey text, out expressions text[]
)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Fields that expressions can set, in the order of insert_event's arguments; the last one is the condition of the
    -- event.
    c_fields constant text[] := array['ev_type', 'ev_data', 'ev_extra1', 'ev_extra2', 'ev_extra3', 'ev_extra4', 'when'];
    v_argument text;
    v_name text;
    v_value text;
    v_field integer;
    v_problem text;
begin
    skip := false;
    backup := false;
    deny := false;
    if level <> 'ROW' and operation <> 'TRUNCATE' then
        v_problem := 'pgq Ins/Upd/Del trigger must be fired FOR EACH ROW';
    elsif coalesce(cardinality(arguments), 0) = 0 then
        v_problem := 'pgq trigger must have destination queue as argument';
    else
        -- Arguments of triggers are numbered from 0; the first is the log.
        foreach v_argument in array arguments[1:]
        loop
            v_name := split_part(v_argument, '=', 1);
            v_value := substr(v_argument, length(v_name) + 2);
            v_field := array_position(c_fields, v_name);
            if v_argument = 'SKIP' then
                skip := true;
            elsif v_argument = 'backup' then
                backup := true;
            elsif v_argument = 'deny' then
                deny := true;
            elsif strpos(v_argument, '=') > 0 and v_name = 'ignore' then
                -- White space separates as a comma does, unless it is part of a name.
                ignored := string_to_array(v_value, ',') || regexp_split_to_array(v_value, E'[\\s,]+');
            elsif strpos(v_argument, '=') > 0 and v_name = 'pkey' then
                pkey := v_value;
            elsif strpos(v_argument, '=') > 0 and v_field is not null then
                -- If a field is set twice, the first one counts.
                expressions[v_field] := coalesce(expressions[v_field], v_value);
            else
                v_problem := coalesce(v_problem, 'bad param to pgq trigger');
            end if;
        end loop;
        v_problem := coalesce(v_problem, case
            when operation <> 'TRUNCATE' then null
            when expressions is not null then 'Custom expressions do not make sense for truncater trigger'
            when ignored is not null then 'Column ignore does not make sense for truncate trigger'
            when pkey is not null then 'Custom pkey_list does not make sense for truncate trigger'
            when backup then 'Backup does not make sense for truncate trigger'
        end);
        v_problem := coalesce(v_problem, case
            when skip and moment = 'AFTER' then 'SKIP does not work in AFTER trigger.'
        end);
    end if;
    if v_problem is not null then
        raise exception using
            errcode = 'PQ007',
            message = v_problem,
            detail = format('The trigger is %s %s FOR EACH %s with the arguments %s.', moment, operation, level, arguments),
            hint = 'create it as for each row, truncate as for each statement, with the log and then any of SKIP (before), '
                'ignore=, pkey=, backup, deny, when=, ev_type=, ev_data=, ev_extra1= to ev_extra4=';
    end if;
end;
$$;

comment on function pgq._trigger_options(text, text, text, text[]) is
    'Parse the arguments of jsontriga, logutriga and sqltriga; expressions are in the order ev_type, ev_data, ev_extra1 to ev_extra4, when.';
revoke execute on function pgq._trigger_options(text, text, text, text[]) from public;
grant execute on function pgq._trigger_options(text, text, text, text[]) to public;
