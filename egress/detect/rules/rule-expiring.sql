-- id: rule-expiring
-- title: A policy's rule ends soon, and is used
-- severity: medium
-- finds: rules of EgressPolicies that end within some days and by which something was allowed in the window.
-- why: what it allows stops then.
-- tuning: within.
-- false positives: rules that are meant to end.
-- needs: rules
-- param within duration = 7d: it ends within so long

SELECT rule.namespace, mode(t.workload) AS workload, mode(t.host) AS host, min(t.time) AS first, max(t.time) AS last, count(*) AS count,
  rule.policy AS policy, rule.rule AS rule, rule.ends AS ends, count(DISTINCT t.workload) AS workloads
FROM $rules rule JOIN traffic t ON t.allowed_by_namespace = rule.namespace AND t.allowed_by_name = rule.policy AND t.allowed_by_rule = rule.rule
WHERE rule.ends > $until AND rule.ends <= $until + $within GROUP BY rule.namespace, rule.policy, rule.rule, rule.ends ORDER BY ends
