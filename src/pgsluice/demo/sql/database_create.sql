-- From template0 with the C locale: equal on every server, regardless of template1.
create database pgsluice_demo template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C';
