update demo.run set finished_at = clock_timestamp();
