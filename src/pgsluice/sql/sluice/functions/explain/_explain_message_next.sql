create or replace function sluice._explain_message_next(i_queue_name text, i_found jsonb)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    m record;
    v_retention interval;
begin
    select r.*
    into m
    from jsonb_to_record(i_found) as r (
        msg_id bigint, state text, vt timestamptz, archived_at timestamptz, dead_letter_id bigint, attempts integer, read_ct integer
    );
    if m.state = 'ready' then
        return query values (null::timestamptz, 'The next claim that reaches it delivers it', '{}'::jsonb);
    elsif m.state in ('delayed', 'retrying', 'released') then
        if m.vt = 'infinity' then
            return query values (
                null::timestamptz, 'It stays invisible until its visibility timeout is set',
                jsonb_build_object('sql', format('select pgmq.set_vt(%L, %s, 0)', i_queue_name, m.msg_id))
            );
        else
            return query values (m.vt, 'It becomes visible, and the next claim that reaches it delivers it', '{}'::jsonb);
        end if;
    elsif m.state = 'in flight' and m.vt < '9000-01-01 00:00:00+00' then
        return query values (
            m.vt, 'Its lease expires; if its worker neither settles it nor renews the lease before, it is redelivered', '{}'::jsonb
        );
    elsif m.state = 'in flight' then
        return query values (null::timestamptz, 'Its stream settles it with its micro-batch', '{}'::jsonb);
    elsif m.state = 'dead' then
        return query values (
            null::timestamptz, 'Nothing, until it is redriven or purged',
            jsonb_build_object(
                'sql', format('select sluice.redrive(%L, filter => %L)', i_queue_name, jsonb_build_object('dead_letter_ids', array[m.dead_letter_id])),
                'command', format('pgsluice dead-letters redrive %s %s', sluice._shell_word(i_queue_name), m.dead_letter_id)
            )
        );
    elsif m.state = 'archived' then
        select r.archive_retention into v_retention from sluice.queue_settings as r where r.queue_name = i_queue_name;
        return query values (
            m.archived_at + v_retention,
            case
                when v_retention is null then 'It stays in the archive: the queue has no retention'
                else 'Retention deletes it from the archive, once every export has verified it'
            end,
            '{}'::jsonb
        );
    end if;
end;
$$;

comment on function sluice._explain_message_next(text, jsonb) is
    'Return what happens next with a message, when, and the command that changes it.';
revoke execute on function sluice._explain_message_next(text, jsonb) from public;
grant execute on function sluice._explain_message_next(text, jsonb) to sluice_admin;
