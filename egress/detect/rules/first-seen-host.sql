-- id: first-seen-host
-- title: A workload reached a host for the first time
-- severity: low
-- attack: T1071.001, T1567
-- finds: hosts that a workload reached in the window, and not in the two weeks before it; a workload that is younger than that is left
--   alone. Of a domain with many new hosts there is one finding, *.DOMAIN.
-- why: what a workload talks to hardly ever changes without a release. Somebody who got in has to talk to a host of his own.
-- tuning: siblings says how many hosts of a domain a workload has to be used to, so that further ones of it (a CDN's) are nothing new.
-- false positives: releases and new features; a job that runs less often than every two weeks.
-- param settled duration = 3d: how long a workload has to be known before the window
-- param siblings integer = 5: hosts of one domain that a workload has to be used to

WITH settled AS (
  SELECT namespace, workload FROM past GROUP BY ALL HAVING min(time) <= $since - $settled
), known AS (
  SELECT DISTINCT namespace, workload, host FROM past WHERE verdict = 'allowed' AND host <> ''
), used AS (
  SELECT namespace, workload, $domain AS domain, count(*) AS hosts FROM known GROUP BY ALL
), reached AS (
  SELECT namespace, workload, host, min(port) AS port, min(time) AS first, max(time) AS last, count(*) AS n, sum(bytes_out) AS bytes
  FROM traffic WHERE verdict = 'allowed' AND host <> '' GROUP BY namespace, workload, host
), fresh AS (
  SELECT *, $domain AS domain FROM reached SEMI JOIN settled USING (namespace, workload) ANTI JOIN known USING (namespace, workload, host)
), counted AS (
  SELECT *, count(*) OVER (PARTITION BY namespace, workload, domain) AS together
  FROM fresh LEFT JOIN used USING (namespace, workload, domain) WHERE coalesce(used.hosts, 0) < $siblings
)
SELECT namespace, workload, CASE WHEN together > $siblings THEN '*.' || domain ELSE host END AS host, min(port) AS port,
  min(first) AS first, max(last) AS last, sum(n)::BIGINT AS count, count(*) AS hosts, sum(bytes) AS bytes_out
FROM counted GROUP BY 1, 2, 3 ORDER BY bytes_out DESC, host
