-- Run in a new session of ours with another style of dates, which keeps the order of day and month; or behind a pooler that
-- refuses startup options. A pooler keeps these two settings for each of its clients, so no other client gets them.
set datestyle = 'ISO';
set standard_conforming_strings = on;
