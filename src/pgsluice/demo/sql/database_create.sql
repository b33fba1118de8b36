-- From template0 with the C locale: the same database on every server, whatever template1 holds.
create database pgsluice_demo template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C';
