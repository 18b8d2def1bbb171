-- id: rule-unused
-- title: A policy's rule decides nothing
-- severity: informational
-- finds: rules of EgressPolicies that neither allowed nor denied anything for a long time, in a log that reaches as far back.
-- why: a permission that nobody needs is there for whoever gets in.
-- tuning: unused.
-- false positives: what happens once a quarter; a rule that is newer than its policy.
-- needs: rules
-- param unused duration = 30d: for so long

WITH used AS (
  SELECT allowed_by_namespace AS namespace, allowed_by_name AS policy, allowed_by_rule AS rule FROM records WHERE time >= $until - $unused AND allowed_by_name <> ''
  UNION SELECT decided_by_namespace, decided_by_name, decided_by_rule FROM records WHERE time >= $until - $unused AND decided_by_kind = 'EgressPolicy'
  UNION SELECT would_deny_namespace, would_deny_name, would_deny_rule FROM records WHERE time >= $until - $unused AND would_deny_name <> ''
), log AS (
  SELECT min(time) AS begins FROM records
)
SELECT namespace, '' AS workload, '' AS host, begins AS first, $until AS last, 0 AS count, policy, rule
FROM $rules rules ANTI JOIN used USING (namespace, policy, rule) CROSS JOIN log
WHERE begins <= $until - $unused AND coalesce(since, begins) <= $until - $unused AND (ends IS NULL OR ends > $until) ORDER BY namespace, policy, rule
