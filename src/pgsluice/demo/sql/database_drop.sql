drop database if exists pgsluice_demo with (force);
