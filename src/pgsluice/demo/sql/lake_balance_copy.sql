copy lake_balance (aid, abalance) from stdin (format csv)
