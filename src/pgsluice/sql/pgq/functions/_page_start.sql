-- Where a session goes on: its setting is '>' and the name of the last log of its last page, or '>' alone. A session that has not begun
-- yet, such as that of a job of pg_cron, which is a new one each time, begins at a random page: otherwise only the first one would
-- ever have its turn.
create or replace function pgq._page_start(i_setting text, i_page_logs integer)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_after text := current_setting(i_setting, true);
    v_logs bigint;
    v_skipped bigint;
begin
    if v_after <> '' then
        return nullif(substr(v_after, 2), '');
    end if;
    v_logs := (select count(*) from pgq.queue as q);
    v_skipped := floor(random() * ceil(v_logs / i_page_logs::double precision))::bigint * i_page_logs;
    if v_skipped = 0 then
        return null;
    end if;
    return (select q.queue_name from pgq.queue as q order by q.queue_name offset v_skipped - 1 limit 1);
end;
$$;

comment on function pgq._page_start(text, integer) is
    'The name of the log after which this session goes on with the next page of logs; null: with the first one.';
revoke execute on function pgq._page_start(text, integer) from public;
grant execute on function pgq._page_start(text, integer) to pgq_admin, sluice_admin;
