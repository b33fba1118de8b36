select exists (select from pg_catalog.pg_database where datname = 'pgsluice_demo');
