-- id: gap
-- title: Records are missing
-- severity: medium
-- attack: T1562.008
-- finds: proxies of which records were lost, and how many.
-- why: nobody can look for anything in what is not there. Who floods a proxy's spool hides in it.
-- tuning: lost.
-- false positives: none; a proxy that was killed, or a disk that was full, is worth knowing.
-- param lost integer = 1: so many at least

SELECT regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 2) AS namespace, coalesce(nullif(regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 1), ''), proxy) AS workload,
  '' AS host, min(time) AS first, max(time) AS last, count(*) AS count, sum(lost) AS lost, mode(reason)[1:200] AS reason
FROM records WHERE class = 'gap' AND time >= $since AND time < $until GROUP BY 1, 2 HAVING sum(lost) >= $lost ORDER BY lost DESC
