-- id: rare-host
-- title: A host that one workload of the mesh uses, and nobody registered
-- severity: informational
-- attack: T1071
-- finds: hosts let through without a registration (ALLOW_ANY) that one workload alone used, in the window and the two weeks before it, on few days.
-- why: what many use is seldom one attacker's. It is a list to look through, and to narrow another finding by.
-- tuning: days and workloads.
-- false positives: most of them. Register what is meant, and it is gone from here. Who has a second workload use the host is not found here.
-- param workloads integer = 10: so many the mesh has to have
-- param days integer = 2: used on so many days at most

WITH recent AS (
  SELECT namespace, workload, host, min(port) AS port, min(time) AS first, max(time) AS last, count(*) AS n, sum(bytes_out) AS bytes
  FROM traffic WHERE verdict = 'allowed' AND path = 'passthrough' AND host <> '' GROUP BY namespace, workload, host
), everywhere AS (
  SELECT host, count(DISTINCT namespace || '/' || workload) AS workloads, count(DISTINCT epoch_us(time) // 86400000000) AS days
  FROM (SELECT namespace, workload, host, time FROM traffic WHERE host <> '' UNION ALL SELECT namespace, workload, host, time FROM past WHERE host <> '')
  SEMI JOIN recent USING (host) GROUP BY host
), mesh AS (
  SELECT count(DISTINCT namespace || '/' || workload) AS workloads FROM traffic
)
SELECT namespace, workload, host, port, first, last, n AS count, bytes AS bytes_out, days
FROM recent JOIN everywhere USING (host)
WHERE everywhere.workloads = 1 AND days <= $days AND (SELECT workloads FROM mesh) >= $workloads ORDER BY bytes DESC, host
