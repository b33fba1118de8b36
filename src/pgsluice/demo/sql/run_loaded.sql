update demo.run set loaded_at = clock_timestamp();
