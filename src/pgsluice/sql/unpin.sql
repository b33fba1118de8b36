select pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(%s::jsonb) as s;
