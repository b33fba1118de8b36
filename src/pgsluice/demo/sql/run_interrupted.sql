update demo.run set interruptions = interruptions + 1;
