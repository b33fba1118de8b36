-- breaking: older clients expect one column less of sluice.list_retry_policies and of sluice.fail
alter table sluice.retry_policy add column if not exists backoff_factor double precision not null default 2;
alter table sluice.retry_policy alter column backoff_factor drop default;
comment on column sluice.retry_policy.backoff_factor is 'Multiplier between attempts, with exponential back-off.';

drop function if exists sluice._backoff(text, interval, interval, boolean, integer);
drop function if exists sluice.fail(text, jsonb, text, jsonb);
drop function if exists sluice.list_retry_policies();
drop function if exists sluice.set_retry_policy(text, integer, text, interval, interval, boolean);
