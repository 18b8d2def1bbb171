-- id: volume
-- title: A workload sent out far more than it does
-- severity: medium
-- attack: T1048, T1567, T1030
-- finds: a day on which a workload sent out more than the median of its own days before, by many times their median absolute deviation, and more than on
--   the largest of them. Days are counted back from the window's end.
-- why: data that is carried off is bytes that leave.
-- tuning: bytes is the least that is worth a word; deviations and times say how far out of line.
-- false positives: backups that begin, migrations, a new customer.
-- param bytes integer = 50000000: so many more than the median
-- param deviations number = 6: so many deviations more
-- param times number = 2: so many times the largest day of the past
-- param days integer = 5: of so many days of the past something has to be known

WITH days AS (
  SELECT namespace, workload, (epoch_us($until) - epoch_us(time)) // 86400000000 AS day, sum(bytes_out) AS bytes, min(time) AS first, max(time) AS last, count(*) AS n
  FROM (SELECT namespace, workload, time, bytes_out FROM traffic UNION ALL SELECT namespace, workload, time, bytes_out FROM past) GROUP BY ALL
), window_days AS (
  SELECT *, day < greatest(1, ceil((epoch_us($until) - epoch_us($since)) / 86400000000)) AS now FROM days
), usual AS (
  SELECT namespace, workload, median(bytes) AS middle, mad(bytes) AS spread, max(bytes) AS largest, count(*) AS days
  FROM window_days WHERE NOT now GROUP BY ALL HAVING count(*) >= $days
), over AS (
  SELECT * FROM window_days JOIN usual USING (namespace, workload)
  WHERE now AND bytes - middle >= $bytes AND bytes > middle + $deviations * 1.4826 * spread AND bytes > $times * largest
), receivers AS (
  SELECT namespace, workload, host, port, sum(bytes_out) AS bytes FROM traffic SEMI JOIN over USING (namespace, workload) GROUP BY ALL
), largest_receivers AS (
  SELECT namespace, workload, arg_max(host, bytes) AS host, arg_max(port, bytes) AS port, max(bytes) AS to_host FROM receivers GROUP BY ALL
)
SELECT namespace, workload, any_value(host) AS host, any_value(port) AS port, min(first) AS first, max(last) AS last, sum(n)::BIGINT AS count,
  round(1 - any_value(largest) / max(bytes), 3) AS score, max(bytes) AS bytes, any_value(to_host) AS bytes_to_host, any_value(middle)::HUGEINT AS usual, any_value(largest) AS largest_before, any_value(days) AS days
FROM over LEFT JOIN largest_receivers USING (namespace, workload) GROUP BY namespace, workload ORDER BY bytes DESC
