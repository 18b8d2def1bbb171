-- id: silent-proxies
-- title: Proxies that report no more
-- severity: medium
-- attack: T1562.008
-- finds: what reported in nearly every hour of some days, all its pods together, and for hours now has not.
-- why: a proxy that was taken away, or is gone around, has no records.
-- tuning: silence, and days, of which most hours have to have records.
-- false positives: a workload that was taken away, or has nothing to do at night: of what is used around the clock only a silence is told.
-- param silence duration = 3h: nothing for so long
-- param days integer = 3: steady for so many days before
-- param steady number = 0.8: part of their hours that have records

WITH hours AS (
  SELECT regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 2) AS namespace,
    regexp_replace(coalesce(nullif(regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 1), ''), proxy),
      '(-[bcdfghjklmnpqrstvwxz2456789]{6,10}|-[0-9]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-[0-9]+$', '') AS workload,
    epoch_us(time) // 3600000000 AS hour, min(time) AS first, max(time) AS last, sum(n)::BIGINT AS n
  FROM (SELECT proxy, max(time) AS time, count(*) AS n FROM records
    WHERE time >= $until - $silence - to_days($days) AND time < $until GROUP BY proxy, epoch_us(time) // 3600000000) GROUP BY ALL
)
SELECT namespace, workload, '' AS host, min(first) AS first, max(last) AS last, sum(n)::BIGINT AS count, count(*) AS hours
FROM hours GROUP BY namespace, workload HAVING max(last) < $until - $silence AND count(*) >= $steady * 24 * $days ORDER BY last
