-- id: generated-names
-- title: Names that a program made up
-- severity: high
-- attack: T1568.002
-- finds: a workload that tries many domains which do not exist or are refused, and whose names are no words: fewer of their pairs of letters are
--   among the usual ones of English and of domains than in words, or every third character is a digit.
-- why: malware makes up domains by the day, and tries one after the other until one is its master's.
-- tuning: domains says how many; usual how large the part of usual pairs may be.
-- false positives: a tool that tries random names to find out whether DNS lies (some browsers do). Names that are put together from words are not found.
-- param domains integer = 10: different ones at least
-- param length integer = 8: letters of a name at least, without what follows its first dot
-- param usual number = 0.35: part of usual pairs of letters, less than this

WITH tried AS (
  SELECT namespace, workload, host, min(time) AS first, max(time) AS last, count(*) AS n, mode(port) AS port
  FROM traffic WHERE host <> '' AND (verdict = 'denied' OR status = 503 OR regexp_matches(coalesce(flags, ''), '(^|,)(DF|NR|UH|UF)(,|$)'))
  GROUP BY namespace, workload, host
), domains AS (
  SELECT namespace, workload, $domain AS domain, min(first) AS first, max(last) AS last, sum(n)::BIGINT AS n, mode(port) AS port FROM tried GROUP BY ALL
), labels AS (
  SELECT *, split_part(domain, '.', 1) AS label FROM domains WHERE NOT regexp_matches(domain, '^[0-9.]+$|:')
), judged AS (
  SELECT *, list_avg(list_transform(range(1, length(label)), lambda i: list_contains(string_split(
    'th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ' ||
    'ap we cl do ub gi go am az ws oo ok ac fa bo ta da og pi ad pa pr tr ec rt sh ss ee lo la el ho ot us ut un em ck op ow et ge ca di po mo bu no', ' '),
    label[i:i + 1])::DOUBLE)) AS usual, length(regexp_replace(label, '[^0-9]', '', 'g')) / length(label) AS digits
  FROM labels WHERE length(label) >= $length
)
SELECT namespace, workload, '' AS host, mode(port) AS port, min(first) AS first, max(last) AS last, sum(n)::BIGINT AS count, count(*) AS domains,
  round(1 - avg(usual), 3) AS score, list(domain ORDER BY first)[1:5] AS some_domains
FROM judged WHERE usual < $usual OR digits BETWEEN 0.3 AND 0.9 GROUP BY namespace, workload HAVING count(*) >= $domains ORDER BY domains DESC
