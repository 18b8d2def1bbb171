-- id: beacon
-- title: Connections at regular intervals
-- severity: medium
-- attack: T1071, T1573, T1029
-- finds: a workload that connects, or tries to, to one host again and again: at regular intervals, with as many bytes and for as long each
--   time. The score (0 to 1) is for half the intervals, and a quarter each the bytes and the duration; each by the median absolute
--   deviation over the median, so that a few outliers do not count. Few connections score less. Those that follow each other at once are one, and
--   where each pod is regular by itself, it does not matter that all of them together are not.
-- why: what got in asks its master for orders by the clock, with some chance mixed in to be seen less.
-- tuning: score up finds less. connections says how many there are at least; shortest that what is denser than that is no beacon but traffic.
-- false positives: jobs and health checks that are new. What a workload did before the window, or registered hosts of a workload that is itself
--   new, are left out.
-- param connections integer = 4: so many at least
-- param shortest duration = 5s: shortest interval, on average
-- param score number = 0.7: score at least
-- param settled duration = 3d: how long a workload has to be known, so that a registered host counts
-- param allow texts = : domains that are left out

WITH pairs AS (
  SELECT namespace, workload, host, port, bool_or(coalesce(decided_by_kind, '') = 'ServiceEntry') AS registered
  FROM traffic WHERE host <> '' GROUP BY namespace, workload, host, port
  HAVING count(*) >= $connections AND (epoch_us(max(time)) - epoch_us(min(time))) / (count(*) - 1) >= (extract(epoch FROM $shortest) * 1000000)
), known AS (
  SELECT DISTINCT namespace, workload, host FROM past WHERE host <> ''
), settled AS (
  SELECT namespace, workload FROM past GROUP BY ALL HAVING min(time) <= $since - $settled
), asked AS (
  SELECT namespace, workload, host, port FROM pairs ANTI JOIN known USING (namespace, workload, host)
  LEFT JOIN (SELECT *, true AS old FROM settled) USING (namespace, workload)
  WHERE (NOT registered OR coalesce(old, false)) AND NOT list_contains($allow, $domain)
), seconds AS (
  SELECT namespace, workload, host, port, coalesce(pod, '') AS pod, epoch_us(time) // 1000000 AS second, sum(bytes_out)::DOUBLE AS sent, max(duration_ns)::DOUBLE AS lasted,
    count(*) AS n, count(*) FILTER (verdict = 'denied') AS denied
  FROM traffic SEMI JOIN asked USING (namespace, workload, host, port) GROUP BY ALL
), seen AS (
  SELECT * EXCLUDE pod, '' AS of FROM seconds UNION ALL SELECT * EXCLUDE pod, pod AS of FROM seconds WHERE pod <> ''
), began AS (
  SELECT *, coalesce(second - lag(second) OVER (PARTITION BY namespace, workload, host, port, of ORDER BY second) > extract(epoch FROM $shortest), true)::INTEGER AS is_new FROM seen
), numbered AS (
  SELECT *, sum(is_new) OVER (PARTITION BY namespace, workload, host, port, of ORDER BY second) AS visit FROM began
), visits AS (
  SELECT namespace, workload, host, port, of, visit, min(second) AS second, sum(sent) AS sent, max(lasted) AS lasted, sum(n) AS n, sum(denied) AS denied FROM numbered GROUP BY ALL
), gaps AS (
  SELECT *, (second - lag(second) OVER (PARTITION BY namespace, workload, host, port, of ORDER BY second))::DOUBLE AS gap FROM visits
), measured AS (
  SELECT namespace, workload, host, port, of <> '' AS apart, make_timestamptz(min(second) * 1000000) AS first, make_timestamptz(max(second) * 1000000) AS last,
    sum(n)::BIGINT AS count, count(*) AS connections, count(DISTINCT of) AS pods, sum(denied)::BIGINT AS denied, median(gap) AS every, mad(gap) AS jitter, median(sent) AS bytes, mad(sent) AS spread,
    median(lasted) AS lasting, mad(lasted) AS lasting_spread
  FROM gaps GROUP BY ALL HAVING connections >= $connections AND count(gap) >= $connections - 1
), scored AS (
  SELECT *, greatest(0, 1 - jitter / every / 0.7) AS intervals, greatest(0, 1 - spread / greatest(bytes, 1) / 0.7) AS sizes,
    greatest(0, 1 - lasting_spread / greatest(lasting, 1) / 0.7) AS durations FROM measured
), best AS (
  SELECT *, (2 * intervals + sizes + durations) / 4 * (1 - 1 / connections) AS points FROM scored WHERE intervals >= 0.5
  QUALIFY row_number() OVER (PARTITION BY namespace, workload, host, port ORDER BY points DESC, apart) = 1
)
SELECT namespace, workload, host, port, first, last, count, round(points, 3) AS score, every AS every_seconds, jitter AS jitter_seconds, bytes AS bytes_each, denied, CASE WHEN apart THEN pods END AS pods_each
FROM best WHERE points >= $score ORDER BY score DESC
