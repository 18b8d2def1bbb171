package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// The bounds of an EgressPolicy, which its CustomResourceDefinition sets too.
const (
	maxRules        = 256 // of a policy
	maxSubjects     = 256 // service accounts, and namespaces, of a policy
	maxRuleHosts    = 256 // of a rule, like the next
	maxRulePorts    = 64
	maxRulePaths    = 64
	maxRuleMethods  = 32
	maxRuleHeaders  = 32
	maxRuleWords    = 256  // bytes of reason, owner, ticket
	maxRulePattern  = 1024 // bytes of a path, and of a header's value
	maxHeaderLength = 128  // bytes of a header's name
)

// egressPolicy judges a policy by itself. What depends on the mesh's settings and on other objects is in checkpolicy.go.
func (r *report) egressPolicy(p *v1alpha1.EgressPolicy) {
	if len(p.Rules) == 0 && p.Default == v1alpha1.Action_Unset {
		r.reject("spec", nil, "says nothing", "write rules, or default: Deny")
	}
	r.policySubjects(p)
	r.atMost("spec.rules", len(p.Rules), maxRules, "rules", "and the rest into another EgressPolicy")
	names := map[string]int{}
	for i, rule := range p.Rules {
		field := at("spec.rules", i)
		r.ruleName(at(field, "name"), i, rule.Name, names)
		r.egressRule(field, rule)
	}
}

// policySubjects judges who the policy is for.
func (r *report) policySubjects(p *v1alpha1.EgressPolicy) {
	if p.Selector != nil && len(p.Selector.MatchLabels) == 0 {
		r.reject("spec.selector.matchLabels", nil, "is empty", "name labels of the workloads that are meant; remove spec.selector to mean all of them")
	}
	r.labels("spec.selector.matchLabels", p.Selector.GetMatchLabels())
	r.atMost("spec.serviceAccounts", len(p.ServiceAccounts), maxSubjects, "service accounts", "")
	r.eachOnce("spec.serviceAccounts", p.ServiceAccounts)
	for i, account := range p.ServiceAccounts {
		if len(validation.IsDNS1123Subdomain(account)) > 0 {
			r.reject(at("spec.serviceAccounts", i), account, "is no service account's name", "write its name alone, without its namespace")
		}
	}
	if p.Namespaces == nil {
		return
	}
	if len(p.Namespaces.Names)+len(p.Namespaces.MatchLabels) == 0 {
		r.reject("spec.namespaces", nil, "is empty", "write names, or matchLabels; remove spec.namespaces to mean the whole mesh")
	}
	r.labels("spec.namespaces.matchLabels", p.Namespaces.MatchLabels)
	r.atMost("spec.namespaces.names", len(p.Namespaces.Names), maxSubjects, "namespaces", "or select them by matchLabels")
	r.eachOnce("spec.namespaces.names", p.Namespaces.Names)
	for i, name := range p.Namespaces.Names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			r.reject(at("spec.namespaces.names", i), name, "is no namespace", "write a namespace's name; patterns are not supported")
		}
	}
}

// ruleName rejects a name that is no DNS label, that an earlier rule has, or that something else is called by. names are the
// earlier rules' indices by their names.
func (r *report) ruleName(field string, i int, name string, names map[string]int) {
	switch first, taken := names[name]; {
	case name == "":
		return
	case len(validation.IsDNS1123Label(name)) > 0:
		r.reject(field, name, "is no rule's name", "use lower-case letters, digits and hyphens, at most 63; begin and end with a letter or digit")
	case ruleNames[name] != "":
		r.reject(field, name, ruleNames[name], "give the rule another name")
	case taken:
		r.reject(field, name, fmt.Sprintf("%s has the same name", at("spec.rules", first)), "give each rule its own name")
	default:
		names[name] = i
	}
}

// ruleNames are what else is called by a name where rules are, and what is.
var ruleNames = map[string]string{
	"default":  "is what the policy's default is called",
	"selector": "is what a denial is called by that is for want of a workload's labels",
}

// atMost rejects a list that is too long.
func (r *report) atMost(field string, n, most int, what, rest string) {
	if n <= most {
		return
	}
	fix := fmt.Sprintf("write at most %d", most)
	if rest != "" {
		fix += ", " + rest
	}
	r.reject(field, n, "too many "+what, fix)
}

// eachOnce warns of what a list has twice.
func (r *report) eachOnce(field string, values []string) {
	seen := map[string]bool{}
	for i, v := range values {
		if seen[v] {
			r.warn(at(field, i), v, "is there twice", "remove one")
		}
		seen[v] = true
	}
}
