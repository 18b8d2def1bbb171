package admission

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/idna"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
)

// egressRule judges one rule.
func (r *report) egressRule(field string, rule *v1alpha1.Rule) {
	switch rule.Action {
	case v1alpha1.Action_Allow:
	case v1alpha1.Action_Deny:
		r.onlyAllow(at(field, "final"), rule.Final, "a Deny of the root namespace is final anyway")
		r.onlyAllow(at(field, "unregistered"), rule.Unregistered, "a Deny is for hosts that nobody registered anyway")
	default:
		r.reject(at(field, "action"), nil, "it is missing", "write Allow or Deny")
	}
	hosts := r.ruleHosts(at(field, "hosts"), rule.Hosts)
	if rule.Unregistered && rule.Action == v1alpha1.Action_Allow {
		r.unregisteredHosts(at(field, "unregistered"), rule, hosts)
	}
	r.atMost(at(field, "ports"), len(rule.Ports), maxRulePorts, "ports", "and the rest into another rule")
	for i, port := range rule.Ports {
		if r.port(at(field, "ports", i), port) && slices.Contains(rule.Ports[:i], port) {
			r.warn(at(field, "ports", i), port, "is there twice", "remove one")
		}
	}
	r.ruleProtocols(at(field, "protocols"), rule.Protocols)
	r.ruleHTTP(field, rule)
	r.ruleTimes(field, rule)
	for _, words := range []struct{ name, text string }{{"reason", rule.Reason}, {"owner", rule.Owner}, {"ticket", rule.Ticket}} {
		r.ruleWords(at(field, words.name), words.text)
	}
}

func (r *report) onlyAllow(field string, set bool, why string) {
	if set {
		r.reject(field, set, "is for rules that allow: "+why, "remove it")
	}
}

// ruleHosts judges names, wildcards and addresses.
func (r *report) ruleHosts(field string, hosts []string) (names []host.Name) {
	r.atMost(field, len(hosts), maxRuleHosts, "hosts", "and the rest into another rule")
	seen := map[host.Name]bool{}
	for i, h := range hosts {
		n, ok := r.ruleHost(at(field, i), h)
		if ok && seen[n] {
			r.warn(at(field, i), h, "the host is there twice", "remove one")
		}
		seen[n] = true
		names = append(names, n)
	}
	return names
}

// unregisteredHosts judges what a rule lets out that nobody registered: names, that the gateway can find.
func (r *report) unregisteredHosts(field string, rule *v1alpha1.Rule, hosts []host.Name) {
	if len(hosts) == 0 || slices.Contains(hosts, host.Any) {
		r.reject(field, true, "the rule names no hosts: with this it would let out everything, as ALLOW_ANY does", `name hosts, or suffixes as in "*.example.com"; where everything is meant, let a Sidecar of the workloads say ALLOW_ANY`)
	}
	if i := slices.IndexFunc(hosts, func(n host.Name) bool { return host.IsAddress(string(n)) }); i >= 0 {
		r.reject(field, true, fmt.Sprintf("the gateway finds hosts by their names, and %s is an address", hosts[i]), "write names, or register the address with a ServiceEntry")
	}
	if len(rule.Ports) == 0 && !slices.Contains([]string{"", protocolHTTP}, strings.Join(rule.Protocols, ",")) && slices.Contains(rule.Protocols, "TCP") {
		r.reject(field, true, "the rule is for TCP, and names no ports: without any, it is for 80 and 443", "name the ports")
	}
}

// ruleHost reads one host of a rule. A connection without a name has its address as host, so addresses are hosts too.
func (r *report) ruleHost(field, value string) (host.Name, bool) {
	if addr, err := netip.ParseAddr(value); err == nil {
		if written := addr.Unmap().String(); written != value {
			r.reject(field, value, "is not how the address is written", fmt.Sprintf("write %q", written))
			return "", false
		}
		return host.Name(value), true
	}
	if _, err := netip.ParsePrefix(value); err == nil {
		r.reject(field, value, "is a range of addresses", "name hosts, or single addresses; register the range with a ServiceEntry and name its host")
		return "", false
	}
	if strings.IndexFunc(value, func(c rune) bool { return c > unicode.MaxASCII }) >= 0 {
		if ascii, err := idna.Lookup.ToASCII(strings.TrimPrefix(value, "*.")); err == nil {
			if strings.HasPrefix(value, "*.") {
				ascii = "*." + ascii
			}
			r.reject(field, value, "it is not ASCII, which is all that clients send", fmt.Sprintf("write %q", ascii))
			return "", false
		}
	}
	n, err := host.ParsePattern(value)
	switch {
	case err == nil:
		return n, true
	case host.Partial(value):
		r.reject(field, value, `"*" stands for the whole first label`, "write it as in "+wholeLabel(value))
	default:
		r.hostError(field, value, err)
	}
	return "", false
}

// ruleProtocol is a protocol as rules name it, and what else it is called in ServiceEntries.
var ruleProtocol = map[string][]string{
	"HTTP": {"HTTP2", "GRPC", "GRPC-WEB", "H2C", "HTTP_PROXY"},
	"TLS":  {"HTTPS", "SNI"},
	"TCP":  {"MONGO", "MYSQL", "REDIS"},
}

const protocolHTTP = "HTTP"

func (r *report) ruleProtocols(field string, values []string) {
	r.eachOnce(field, values)
	for i, p := range values {
		if ruleProtocol[p] != nil {
			continue
		}
		known := sortedKeys(ruleProtocol)
		fix := "use one of " + strings.Join(known, ", ")
		for _, name := range known {
			if slices.Contains(ruleProtocol[name], strings.ToUpper(p)) {
				fix = fmt.Sprintf("write %q, which is what the proxy sees of it", name)
			}
		}
		if meant := strict.Closest(p, known); strings.EqualFold(meant, p) && p != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		r.reject(at(field, i), p, "unknown protocol", fix)
	}
}

// ruleTimes judges when the rule counts.
func (r *report) ruleTimes(field string, rule *v1alpha1.Rule) {
	from, to := r.ruleTime(at(field, "notBefore"), rule.NotBefore), r.ruleTime(at(field, "expires"), rule.Expires)
	if from && to && !rule.NotBefore.AsTime().Before(rule.Expires.AsTime()) {
		r.reject(at(field, "expires"), moment(rule.Expires.AsTime()), "is not after notBefore, so the rule never counts", "write a later time, or remove the rule")
	}
}

// ruleTime says whether a time is there and can be used.
func (r *report) ruleTime(field string, t *timestamppb.Timestamp) bool {
	switch {
	case t == nil:
		return false
	case !t.IsValid():
		r.reject(field, moment(t.AsTime()), "is no time", `write it as in "2030-01-31T00:00:00Z"`)
		return false
	case t.Nanos != 0:
		r.reject(field, t.AsTime().Format("2006-01-02T15:04:05.999999999Z"), "has parts of a second", fmt.Sprintf("write %q", moment(t.AsTime())))
	}
	return true
}

// moment writes a time as users do, to the second.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// ruleWords judges what is for people: it is shown on terminals and sent in the answer to who is denied.
func (r *report) ruleWords(field, text string) {
	if len(text) > maxRuleWords {
		r.reject(field, text, fmt.Sprintf("it has %d bytes, at most %d are allowed", len(text), maxRuleWords), "shorten it")
	}
	switch {
	case strings.IndexFunc(text, unicode.IsControl) >= 0, strings.ContainsAny(text, "\u2028\u2029"):
		r.reject(field, text, "it holds control characters", "write it on one line, without them")
	case strings.ContainsFunc(text, turns):
		r.reject(field, text, "it holds characters that turn the direction of writing, so that it reads as something else", "remove them")
	}
}

// turns says whether a character turns the direction of what is written after it (Unicode Standard Annex 9, 2.1 to 2.6, marks apart, which turn nothing else).
func turns(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }
