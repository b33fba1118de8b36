-- Gold: amount paid per customer.
create materialized view gold as
select customer, count(*) as orders, sum(amount) as paid
from silver
where status = 'paid'
group by customer;
