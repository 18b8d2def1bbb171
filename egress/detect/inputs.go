package detect

import (
	"cmp"
	"time"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// Inputs are what rules are given beside the log. What is nil is not there, and rules that need it are skipped.
type Inputs struct {
	Feed  *Feed
	Rules []PolicyRule
	// NoRules says why there are no Rules, for people.
	NoRules string
	// Proxies are those that are connected to controllers.
	Proxies []presence.Proxy
	// NoProxies says why there are no Proxies, for people.
	NoProxies string

	hits    []hit            // of the feed, in the log
	unheard []presence.Proxy // of Proxies, not in the log
}

// PolicyRule is a rule of an EgressPolicy in force.
type PolicyRule struct {
	Namespace, Policy, Rule string
	Ends                    time.Time // zero: it does not
	Since                   time.Time // since when there is the policy; zero: nobody knows
}

// hit is a host of the log that a feed names, and the line of the feed that does.
type hit struct{ host, entry string }

func (in *Inputs) feed() string {
	rows := make([][]string, len(in.hits))
	for i, h := range in.hits {
		rows[i] = []string{query.Literal(h.host), query.Literal(h.entry)}
	}
	return relation([]string{"host", "entry"}, []string{"VARCHAR", "VARCHAR"}, rows)
}

func (in *Inputs) rules() string {
	rows := make([][]string, len(in.Rules))
	for i, r := range in.Rules {
		rows[i] = []string{query.Literal(r.Namespace), query.Literal(r.Policy), query.Literal(r.Rule), maybe(r.Ends), maybe(r.Since)}
	}
	return relation([]string{"namespace", "policy", "rule", "ends", "since"}, []string{"VARCHAR", "VARCHAR", "VARCHAR", "TIMESTAMPTZ", "TIMESTAMPTZ"}, rows)
}

func (in *Inputs) proxies() string {
	rows := make([][]string, len(in.unheard))
	for i, p := range in.unheard {
		rows[i] = []string{query.Literal(p.ID), query.Instant(p.Since)}
	}
	return relation([]string{"proxy", "since"}, []string{"VARCHAR", "TIMESTAMPTZ"}, rows)
}

func maybe(t time.Time) string {
	if t.IsZero() {
		return "NULL"
	}
	return query.Instant(t)
}

// missing says why a rule cannot run with these inputs; "" when it can.
func (in *Inputs) missing(r *Rule) string {
	for _, need := range r.Needs {
		switch {
		case need == InputFeed && in.Feed == nil:
			return "no feed of domains was given (--feed FILE)"
		case need == InputRules && in.Rules == nil && in.NoRules != "":
			return in.NoRules
		case need == InputRules && in.Rules == nil:
			return "no configuration was given (--config-dir DIR, --up DIR or --kubeconfig FILE)"
		case need == InputProxies && in.Proxies == nil:
			return cmp.Or(in.NoProxies, "no controller says which proxies are connected")
		}
	}
	return ""
}
