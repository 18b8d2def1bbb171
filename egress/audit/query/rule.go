package query

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Rule names rules of EgressPolicies and AuthorizationPolicies: the policies of a namespace, one of them, or a rule in it. All may be globs; empty fits all.
type Rule struct {
	Namespace string `json:"namespace,omitempty"`
	Policy    string `json:"policy,omitempty"`
	Name      string `json:"name,omitempty"`
}

// ParsePolicy reads NS/NAME, or NS for all of it, as a policy with any rule.
func ParsePolicy(text string) (Rule, error) {
	namespace, policy, _ := strings.Cut(text, "/")
	if namespace == "" && policy == "" && text != "" || strings.Contains(policy, "/") {
		return Rule{}, fmt.Errorf("policy %q: write NAMESPACE/NAME, the name of a policy", text)
	}
	return Rule{Namespace: namespace, Policy: policy}, nil
}

// match says whether it fits one of the rules that a record names: the one that decided, that allowed, or that would deny.
func (f Rule) match(r *record.Record, wouldDeny bool) bool {
	if wouldDeny {
		return f.matchObject(r.WouldDeny)
	}
	return f.matchObject(r.DecidedBy) || f.matchObject(r.AllowedBy) || f.matchObject(r.WouldDeny)
}

func (f Rule) matchObject(o record.Object) bool {
	return o.HasRules() && (f.Namespace == "" || globMatch(f.Namespace, o.Namespace)) &&
		(f.Policy == "" || globMatch(f.Policy, o.Name)) && (f.Name == "" || globMatch(f.Name, o.Rule))
}

// ruleObjects begin the columns of the objects that may be rules; the last one's would deny.
var ruleObjects = []string{"decided_by", "allowed_by", "would_deny"}

// ruleColumns are those that where reads.
var ruleColumns = func() (out []string) {
	for _, object := range ruleObjects {
		for _, part := range []string{"_kind", "_namespace", "_name", "_rule"} {
			out = append(out, object+part)
		}
	}
	return out
}()

// where is match as a condition with its parameters.
func (f Rule) where(wouldDeny bool) (string, []any) {
	objects := ruleObjects
	if wouldDeny {
		objects = objects[2:]
	}
	var either []string
	var args []any
	for _, object := range objects {
		all := []string{object + "_kind IN (?, ?)"}
		args = append(args, record.EgressPolicy, record.AuthorizationPolicy)
		for _, part := range [...]struct{ column, glob string }{{"_namespace", f.Namespace}, {"_name", f.Policy}, {"_rule", f.Name}} {
			if part.glob != "" {
				all = append(all, object+part.column+` LIKE ? ESCAPE '\'`)
				args = append(args, globLike(part.glob))
			}
		}
		either = append(either, strings.Join(all, " AND "))
	}
	return "(" + strings.Join(either, " OR ") + ")", args
}
