-- id: dns-tunnel
-- title: Names that look like data
-- severity: high
-- attack: T1071.004, T1048.003, T1572
-- finds: a workload that uses, or asks for, many names below one domain which it never used before: long ones, each only a few times, and of
--   letters that hardly repeat. Refused names count as well.
-- why: a name that is asked for is carried to the domain's own name server. Whoever has one gets data out by it, where nothing else gets out.
-- tuning: names, length and bytes say how much it takes; allow leaves domains out.
-- false positives: services that put a key into the name, such as block lists and antivirus look-ups, and storage with a name for each bucket.
-- param names integer = 30: different names at least; of twice that length half as many
-- param length integer = 18: letters below the domain, on average
-- param bytes integer = 1500: letters below the domain, of all names together
-- param entropy number = 3: bits a letter, on average
-- param once number = 0.3: names for each use at least: 1 when none is used twice, and a name is asked for by both kinds of address, and again
-- param allow texts = : domains that are left out

WITH known AS (
  SELECT DISTINCT namespace, workload, host FROM past WHERE host <> ''
), used AS (
  SELECT namespace, workload, host, mode(port) AS port, count(*) AS n, count(*) FILTER (verdict = 'denied') AS denied, min(time) AS first, max(time) AS last
  FROM traffic WHERE length(host) > $length GROUP BY namespace, workload, host
), names AS (
  SELECT *, $domain AS domain FROM used ANTI JOIN known USING (namespace, workload, host)
), below AS (
  SELECT *, replace(host[1:length(host) - length(domain) - 1], '.', '') AS sub FROM names WHERE length(host) > length(domain) + 1
), many AS (
  SELECT namespace, workload, domain FROM below WHERE NOT list_contains($allow, domain) GROUP BY ALL
  HAVING count(*) * least(2, avg(length(sub)) / $length) >= $names AND avg(length(sub)) >= $length AND sum(length(sub)) >= $bytes AND count(*) / sum(n) >= $once
)
SELECT namespace, workload, '*.' || domain AS host, mode(port) AS port, min(first) AS first, max(last) AS last, sum(n)::BIGINT AS count, count(*) AS names,
  sum(denied)::BIGINT AS denied, sum(length(sub))::BIGINT AS bytes, round(avg(length(sub)), 1) AS length,
  round(avg(list_entropy(string_split(sub, ''))), 2) AS entropy, list(host ORDER BY first)[1:3] AS some_hosts
FROM below SEMI JOIN many USING (namespace, workload, domain) GROUP BY namespace, workload, domain
HAVING avg(list_entropy(string_split(sub, ''))) >= $entropy ORDER BY bytes DESC
