-- id: denied-burst
-- title: Much was denied to a workload in a short time
-- severity: medium
-- attack: T1046, T1071
-- finds: workloads to which so much was denied within a few minutes, and more than twice as much as at any time in the two weeks before.
-- why: who got in tries what is open. So does a release that nobody registered the hosts for.
-- tuning: denied and minutes say how much in how long; times how much more than ever before.
-- false positives: a release that uses a host which is not registered, and tries again and again: the hosts are in the evidence.
-- param denied integer = 20: so many at least
-- param minutes integer = 5: within so many minutes
-- param times number = 2: so many times as much as in the past's worst minutes

WITH minutes AS (
  SELECT namespace, workload, epoch_us(time) // 60000000 AS minute, count(*) AS n, true AS now FROM traffic WHERE verdict = 'denied' GROUP BY ALL
  UNION ALL
  SELECT namespace, workload, epoch_us(time) // 60000000 AS minute, count(*) AS n, false AS now FROM past WHERE verdict = 'denied' GROUP BY ALL
), sums AS (
  SELECT *, sum(n) OVER (PARTITION BY namespace, workload, now ORDER BY minute RANGE BETWEEN $minutes - 1 PRECEDING AND CURRENT ROW) AS together FROM minutes
), peaks AS (
  SELECT namespace, workload, max(together) FILTER (now) AS peak, arg_max(minute, together) FILTER (now) AS ends, max(together) FILTER (NOT now) AS usual
  FROM sums GROUP BY ALL HAVING peak >= $denied AND peak > $times * coalesce(usual, 0)
)
SELECT namespace, workload, mode(host) AS host, mode(port) AS port, min(time) AS first, max(time) AS last, count(*) AS count,
  any_value(peak)::BIGINT AS peak, make_timestamptz(any_value(ends) * 60000000) AS peak_ends, coalesce(any_value(usual), 0)::BIGINT AS worst_before,
  count(DISTINCT host) AS hosts, list(DISTINCT host)[1:5] AS some_hosts, mode(reason)[1:200] AS reason
FROM traffic JOIN peaks USING (namespace, workload) WHERE verdict = 'denied' GROUP BY namespace, workload ORDER BY peak DESC
