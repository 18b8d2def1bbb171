package envoylog

import (
	"strings"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// rules are what an entry says of the rules of policies: of a connection what its question was answered, of a request each by itself.
type rules struct {
	denied, answered string
	wire.Ruled
}

// The keys of what is read of an answer, as a Struct has them: with their length before them.
const (
	keyDenied = "\x06" + wire.AnswerDenied
	keyRules  = "\x05" + wire.AnswerRules
)

// answerTells says whether the answer to a connection's question can tell of policies. Each connection that was asked about has one,
// which is not gone through for nothing.
func (l *logged) answerTells() bool {
	if l.cluster == wire.BlackHoleCluster || l.cluster == "" { // Envoy names no cluster that leads nowhere
		return strings.Contains(l.metadata, keyDenied)
	}
	return strings.Contains(l.metadata, keyRules)
}

// readMetadata reads what a filter says in the Metadata, which has a Struct for each by its name.
func (l *logged) readMetadata(filter string) error {
	f := protobuf.Scan(l.metadata)
	for f.Next() {
		if f.Tag == metadataFilter {
			f.Fail(l.readFilter(filter, f.Text))
		}
	}
	return f.Err()
}

// readFilter reads an entry of the map of what filters say, if it is that filter's.
func (l *logged) readFilter(filter, pair string) error {
	var name, said string
	f := protobuf.Scan(pair)
	for f.Next() {
		switch f.Tag {
		case mapKey:
			name = f.Text
		case mapValue:
			said = f.Text
		}
	}
	if err := f.Err(); err != nil || name != filter {
		return err
	}
	s := protobuf.Scan(said)
	for s.Next() {
		if s.Tag == structField {
			s.Fail(l.readRule(s.Text))
		}
	}
	return s.Err()
}

// readRule reads an entry of the map that a Struct is.
func (l *logged) readRule(pair string) error {
	key, value, err := readField(pair)
	l.setRule(key, value)
	return err
}

// readField reads one, of which only texts are read.
func readField(pair string) (key, value string, err error) {
	f := protobuf.Scan(pair)
	for f.Next() {
		switch f.Tag {
		case mapKey:
			key = f.Text
		case mapValue:
			v := protobuf.Scan(f.Text)
			for v.Next() {
				value = ""
				if v.Tag == valueString {
					value = v.Text
				}
			}
			f.Fail(v.Err())
		}
	}
	return key, value, f.Err()
}

// setRule takes what a filter says under a key.
func (l *logged) setRule(key, value string) {
	switch key {
	case wire.AnswerDenied:
		l.said().denied = value
	case wire.AnswerRules:
		l.said().answered = value
	case wire.StatRoot + wire.EnforcedRule:
		l.said().Root = value
	case wire.StatOwn + wire.EnforcedRule:
		l.said().Own = value
	case wire.StatRoot + wire.ShadowRule:
		l.said().RootObserved = value
	case wire.StatOwn + wire.ShadowRule:
		l.said().OwnObserved = value
	case wire.StatAuthz + wire.EnforcedRule:
		l.said().Authz = value
	case wire.StatAuthz + wire.ShadowRule:
		l.said().AuthzObserved = value
	case wire.StatAsked + wire.ShadowRule:
		l.said().Asked = value
	}
}

// said is where rules are put.
func (l *logged) said() *rules {
	if l.rules == nil {
		l.rules = new(rules)
	}
	return l.rules
}

// deniedByRule begins Envoy's details of a request that its filter of access denies; the rule's name follows, and "]".
const deniedByRule = "rbac_access_denied_matched_policy["

// forbid says that a policy's rule denied it, where one did. Envoy's details have the rule of a request.
func (r *entry) forbid(details string) bool {
	text, ok := strings.CutPrefix(details, deniedByRule)
	switch {
	case ok:
		text = strings.TrimSuffix(text, "]")
	case r.rules != nil:
		text = strings.TrimRight(r.rules.denied, " ")
	default:
		return false
	}
	rule, _ := wire.ParseRule(text)
	if rule.Verdict != wire.RuleDenies {
		return false
	}
	if rule.Policy == "" && r.rules != nil { // what wants somebody asked whom the proxy did not know yet, or no more
		asked := ruleOf(r.rules.Asked)
		rule.Policy, rule.Rule, rule.Revision = asked.Policy, asked.Rule, asked.Revision
	}
	r.deny(r.pathDenied(), whyForbidden(rule))
	r.DecidedBy = objectOf(rule)
	return true
}

// whyForbidden says it in words.
func whyForbidden(rule wire.Rule) string {
	why, name, by := rule.Reason, ", rule "+rule.Rule, objectOf(rule)
	switch {
	case by.Kind == wire.MeshConfig:
		return rule.Reason
	case rule.Rule == "default":
		why, name = "no rule allows it", ""
	case rule.Rule == "selector":
		why, name = "nobody knows the workload's labels", ""
	case strings.HasSuffix(rule.Rule, ".paths"):
		why, name = "the path can be taken for another one", ", rule "+strings.TrimSuffix(rule.Rule, ".paths")
	}
	text := "denied by " + by.Kind + " " + by.Namespace + "/" + by.Name + name
	if why != "" {
		text += ": " + why
	}
	if rule.Owner != "" {
		text += " (owner: " + rule.Owner + ")"
	}
	return text
}

// tellRules fills in which rules something met that was allowed: the one that allowed it, and the one that would deny it.
func (r *entry) tellRules() {
	var said wire.Ruled
	switch {
	case r.tags.rules != "":
		said = wire.ParseRuled(r.tags.rules)
	case r.rules == nil:
		return
	case r.rules.answered != "":
		said = wire.ParseRuled(r.rules.answered)
	default:
		said = r.rules.Ruled
	}
	root, own := ruleOf(said.Root), ruleOf(said.Own)
	switch {
	case own.Verdict == wire.RuleAllows && root.Verdict != wire.RuleFinal:
		r.AllowedBy = objectOf(own)
	case root.Verdict == wire.RuleAllows, root.Verdict == wire.RuleFinal:
		r.AllowedBy = objectOf(root)
	default:
		if asked := ruleOf(said.Asked); asked.Verdict == wire.RuleAsks {
			r.AllowedBy = objectOf(asked)
		}
		if authz := ruleOf(said.Authz); authz.Verdict == wire.RuleAllows {
			r.AllowedBy = objectOf(authz)
		}
	}
	if said.RootObserved != "" {
		root = ruleOf(said.RootObserved)
	}
	if said.OwnObserved != "" {
		own = ruleOf(said.OwnObserved)
	}
	switch {
	case root.Verdict == wire.RuleDenies:
		r.WouldDeny = objectOf(root)
	case own.Verdict == wire.RuleDenies && root.Verdict != wire.RuleFinal:
		r.WouldDeny = objectOf(own)
	default:
		if authz := ruleOf(said.AuthzObserved); authz.Verdict == wire.RuleDenies {
			r.WouldDeny = objectOf(authz)
		}
	}
}

// ruleOf reads a level's rule; of one that says nothing it is the zero Rule.
func ruleOf(text string) wire.Rule {
	rule, _ := wire.ParseRule(text)
	return rule
}

// objectOf names a rule as records do.
func objectOf(r wire.Rule) record.Object {
	kind, namespace, name := r.Object()
	return record.Object{Kind: kind, Namespace: namespace, Name: name, Rule: r.Rule, Revision: r.Revision}
}
