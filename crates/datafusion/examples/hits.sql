select count(*) from hits where adv <> 0
select sum(adv), count(*), avg(width) from hits
select count(distinct visitor) from hits
select min(time), max(time) from hits
select region, count(distinct visitor) as n from hits group by region order by n desc, region limit 10
select phrase, count(*) as n from hits where phrase <> '' group by phrase order by n desc, phrase limit 10
select visitor, phrase, count(*) as n from hits group by visitor, phrase order by n desc, visitor, phrase limit 10
select count(*) from hits where url like '%google%'
select time, url from hits where visitor = 435090932899640449 order by time, url limit 10
select date_trunc('minute', time) as minute, count(*) as n from hits where counter = 62 and time >= timestamp '2013-07-14' and time < timestamp '2013-07-16' group by minute order by minute limit 10
