select to_regclass('demo.run') is not null;
