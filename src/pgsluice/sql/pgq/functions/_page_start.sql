-- The session's setting is '>' and the name of the last log of its last page, or '>' alone. A session without it, such
-- as a job of pg_cron, which gets a new session each time, starts at a random page: otherwise only the first page would
-- ever be processed.
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
    'Return the name of the log after which this session''s next page of logs starts; null: at the first log.';
revoke execute on function pgq._page_start(text, integer) from public;
grant execute on function pgq._page_start(text, integer) to pgq_admin, sluice_admin;
