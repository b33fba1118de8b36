create table pgmq.topic_bindings (
    pattern text not null,
    queue_name text not null
        constraint topic_bindings_meta_queue_name_fk references pgmq.meta (queue_name) on delete cascade,
    bound_at timestamptz not null default now(),
    -- Compiled when it is bound, because each routed message is matched against all patterns.
    compiled_regex text generated always as (
        '^'
        || replace(
            replace(regexp_replace(pattern, '([.+?{}()|\[\]\\^$])', '\\\1', 'g'), '*', '[^.]+'),
            '#', '.*'
        )
        || '$'
    ) stored,
    constraint topic_bindings_unique_pattern_queue unique (pattern, queue_name)
);
comment on table pgmq.topic_bindings is 'One row per binding of a queue to a pattern of routing keys.';
create index idx_topic_bindings_covering on pgmq.topic_bindings (pattern) include (queue_name, compiled_regex);
-- The full row is no alternative: PostgreSQL 18 refuses a generated column in it.
alter table pgmq.topic_bindings replica identity using index topic_bindings_unique_pattern_queue;

grant select on pgmq.topic_bindings to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on pgmq.topic_bindings to sluice_admin;
grant select on pgmq.topic_bindings to pg_monitor;
