-- id: unheard-proxies
-- title: Proxies that never reported
-- severity: medium
-- attack: T1562.008
-- finds: proxies that are connected to a controller, and of which the log has nothing, although they have traffic: their workload's other replicas report, or another proxy sent to their pod.
-- why: whose records do not come in is not watched, and who goes around his proxy has none.
-- tuning: connected, and records; alone tells of those as well of which nobody says that they have traffic.
-- false positives: replicas of which one does the work, and the others wait.
-- needs: proxies
-- param connected duration = 1h: they are there for so long at least, and so do the others report
-- param records integer = 20: so many of each of the other replicas on average, or of those who sent, in the window
-- param alone integer = 0: 1 for those, too, of which nobody says that they have traffic, as informational

WITH unheard AS (
  SELECT proxy, since, regexp_extract(proxy, '^[^~]*') AS kind, regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 2) AS namespace, regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 1) AS pod,
    regexp_replace(regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 1), '(-[bcdfghjklmnpqrstvwxz2456789]{6,10}|-[0-9]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-[0-9]+$', '') AS workload
  FROM $proxies WHERE since <= $until - $connected
), replicas AS (
  SELECT regexp_extract(proxy, '^[^~]*') AS kind, regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 2) AS namespace,
    regexp_replace(regexp_extract(proxy, '^[^~]*~[^~]*~(.*)\.([^.~]+)~', 1), '(-[bcdfghjklmnpqrstvwxz2456789]{6,10}|-[0-9]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-[0-9]+$', '') AS workload,
    count(*) AS replicas, sum(n)::BIGINT AS n, min(first) AS first
  FROM (SELECT proxy, count(*) AS n, min(time) AS first FROM records WHERE time >= $since AND time < $until AND EXISTS (FROM unheard) GROUP BY proxy) GROUP BY ALL
), reached AS (
  SELECT destination_namespace AS namespace, destination_workload AS pod, count(*) AS n FROM records
  WHERE time >= $since AND time < $until AND path = 'mesh' AND verdict = 'allowed' AND coalesce(flags, '') = '' AND coalesce(reporter, '') <> 'destination' AND EXISTS (FROM unheard) GROUP BY ALL
), judged AS (
  SELECT u.*, coalesce(r.replicas, 0) AS replicas, coalesce(r.n, 0) AS of_replicas, coalesce(d.n, 0) AS sent,
    coalesce(r.n // r.replicas, 0) >= $records AND r.first <= $until - $connected OR coalesce(d.n, 0) >= $records AS busy
  FROM unheard u LEFT JOIN replicas r USING (kind, namespace, workload) LEFT JOIN reached d USING (namespace, pod)
)
SELECT namespace, workload, '' AS host, min(since) AS first, $until AS last, count(*) AS count, CASE WHEN bool_or(busy) THEN 'medium' ELSE 'informational' END AS severity,
  min(pod) AS pod, max(replicas) AS replicas_that_report, max(of_replicas) AS records_of_replicas, sum(sent)::BIGINT AS records_of_senders
FROM judged WHERE busy OR $alone = 1 GROUP BY namespace, workload ORDER BY count DESC
