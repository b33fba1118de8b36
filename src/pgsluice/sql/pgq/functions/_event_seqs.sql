-- A log whose sequence cannot be read, because it is being dropped or is damaged, must not block the others.
create or replace function pgq._event_seqs(i_queue_ids integer[])
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_event_seqs bigint[] := '{}';
    v_queue_id integer;
begin
    return array(
        select coalesce(pg_sequence_last_value(format('pgq.event_%s_id_seq', l.id)::regclass), 0)
        from unnest(i_queue_ids) with ordinality as l (id, position)
        order by l.position
    );
exception
    when others then
        foreach v_queue_id in array i_queue_ids
        loop
            begin
                v_event_seqs := v_event_seqs || pgq._event_seq(v_queue_id);
            exception
                when others then
                    v_event_seqs := v_event_seqs || null::bigint;
            end;
        end loop;
        return v_event_seqs;
end;
$$;

comment on function pgq._event_seqs(integer[]) is
    'Return pgq._event_seq() of several logs; null where a sequence cannot be read.';
revoke execute on function pgq._event_seqs(integer[]) from public;
grant execute on function pgq._event_seqs(integer[]) to pgq_admin, sluice_admin;
