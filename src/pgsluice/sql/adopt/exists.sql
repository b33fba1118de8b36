select pg_catalog.to_regnamespace('pgmq') is not null;
