create or replace function sluice.claim_messages(queue_name text, vt integer, qty integer, worker text default null)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select * from pgmq.%I($1, $2, $3, null, false)', pgmq._reader(queue_name)
    )
    using clock_timestamp(), make_interval(secs => vt), qty;
end;
$$;

comment on function sluice.claim_messages(text, integer, integer, text) is
    'Claim up to qty visible messages, lowest msg_id first, and hide them for vt seconds, as far as the limits of the queue allow.';
revoke execute on function sluice.claim_messages(text, integer, integer, text) from public;
grant execute on function sluice.claim_messages(text, integer, integer, text) to sluice_admin, sluice_reader;
