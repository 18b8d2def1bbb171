-- id: feed
-- title: A domain of the feed
-- severity: high
-- attack: T1071, T1583.001
-- finds: hosts that the feed names, or whose domain it does, whether they were reached or denied.
-- why: somebody else has found out that they are bad.
-- tuning: the feed.
-- false positives: the feed's.
-- needs: feed

SELECT namespace, workload, host, port, min(time) AS first, max(time) AS last, count(*) AS count, any_value(entry) AS entry,
  count(*) FILTER (verdict = 'denied') AS denied, sum(bytes_out) AS bytes_out
FROM traffic JOIN $feed feed USING (host) GROUP BY namespace, workload, host, port ORDER BY count DESC
