select count(*) from demo.change;
