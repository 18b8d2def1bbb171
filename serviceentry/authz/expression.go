package authz

import (
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// Abnormal is an expression (RE2) for paths that servers may take for others. Of rules that allow nothing that is asked of a
// path holds for them, and of others all.
const Abnormal = egresspolicy.Abnormal

// Expression is an expression (RE2) for the whole text of an attribute that one of the values means: of Principal, Namespace,
// ServiceAccount and TrustDomain the client's SPIFFE id; of Host, SNI and Port what is asked for, "host:port", where the port may be
// missing for 80; of Path the path with its query; else the value itself.
func (t Term) Expression(values, domains []string) string {
	var out []string
	for _, v := range values {
		out = append(out, t.expression(v, domains)...)
	}
	slices.Sort(out)
	joined := strings.Join(slices.Compact(out), "|")
	if t.Attribute == Host || t.Attribute == SNI || t.Folds {
		return "(?i)(" + joined + ")"
	}
	return "(" + joined + ")"
}

func (t Term) expression(v string, domains []string) []string {
	switch t.Attribute {
	case Principal:
		return principals(v, domains)
	case Namespace:
		return []string{"spiffe://[^/]+/ns/" + glob(v, "[^/]") + "/.*"}
	case ServiceAccount:
		ns, account, _ := strings.Cut(v, "/")
		return []string{"spiffe://[^/]+/ns/" + regexp.QuoteMeta(ns) + "/sa/" + regexp.QuoteMeta(account)}
	case TrustDomain:
		return []string{"spiffe://" + glob(v, "[^/]") + "/.*"}
	case Port:
		if v == "80" {
			return []string{`[^:]*`, `\[.*\]`, `.*:80`}
		}
		return []string{".*:" + regexp.QuoteMeta(v)}
	case Host:
		return []string{authority(v)}
	case SNI:
		return []string{glob(v, ".") + `\.?(:[0-9]+)?`}
	case Path:
		return []string{path(v) + `(\?.*)?`}
	default:
		return []string{glob(v, ".")}
	}
}

// local stands for the mesh's own trust domain, as in Istio, whatever that is called.
const local = "cluster.local"

// principals are expressions for a principal in each of the mesh's trust domains, where it names one of them, or the end of one: "*-td/ns/NS/sa/SA". One without a domain,
// "*/ns/NS/sa/SA", is of all that there are.
func principals(v string, domains []string) (out []string) {
	if v == "*" {
		return []string{".+"}
	}
	domain, rest, full := strings.Cut(v, "/")
	end, pattern := strings.CutPrefix(domain, "*")
	names := func(d string) bool { return d == domain || pattern && strings.HasSuffix(d, end) }
	if pattern || domain != local { // whatever else it names
		out = append(out, "spiffe://"+glob(v, "."))
	}
	if !full || domain == "*" || domain != local && !slices.ContainsFunc(domains, names) || pattern && strings.Count(rest, "/") != 3 {
		return out
	}
	for _, d := range domains {
		if !pattern || !names(d) {
			out = append(out, "spiffe://"+glob(d+"/"+rest, "."))
		}
	}
	return out
}

// glob is an expression for what Istio's patterns mean: "abc", "abc*", "*abc", and "*" for what is not empty. "*" stands for signs of
// a class.
func glob(v, sign string) string {
	if v == "*" {
		return sign + "+"
	}
	if rest, ok := strings.CutPrefix(v, "*"); ok {
		return sign + "*" + regexp.QuoteMeta(rest)
	}
	if rest, ok := strings.CutSuffix(v, "*"); ok {
		return regexp.QuoteMeta(rest) + sign + "*"
	}
	return regexp.QuoteMeta(v)
}

// authority is an expression for a host as requests have it. One without a port is meant at every port.
func authority(v string) string {
	if strings.Contains(v[strings.LastIndexByte(v, ']')+1:], ":") {
		return glob(v, ".")
	}
	return glob(v, ".") + `\.?(:[0-9]+)?`
}

// Subject is one of the values of a request's principal, as expressions (RE2) for the token's issuer and its subject. They are not one
// text: "a/b" of an issuer "a" is not "b" of an issuer "a/".
type Subject struct{ Issuer, Subject string }

// Subjects are the values of a term about RequestPrincipal, as Istio reads them: "ISSUER/SUBJECT", of which the issuer may begin in "*" and
// the subject end in one; without a "/", "*" for any, "ISSUER*" and "*SUBJECT".
func Subjects(values []string) (out []Subject) {
	const any = ".+"
	for _, v := range values {
		i := strings.LastIndexByte(v, '/')
		rest, ends := strings.CutPrefix(v, "*")
		begin, begins := strings.CutSuffix(v, "*")
		switch {
		case i >= 0 && begins && !ends:
			out = append(out, Subject{regexp.QuoteMeta(v[:i]), glob(v[i+1:], ".")})
		case i >= 0 && ends:
			out = append(out, Subject{glob(v[:i], "."), glob(v[i+1:], ".")})
		case i >= 0:
			out = append(out, Subject{regexp.QuoteMeta(v[:i]), regexp.QuoteMeta(v[i+1:])})
		case v == "*":
			out = append(out, Subject{any, any})
		case ends:
			out = append(out, Subject{any, ".*" + regexp.QuoteMeta(rest)})
		case begins:
			out = append(out, Subject{regexp.QuoteMeta(begin) + ".*", any})
		default: // no token is without a subject and has one
			out = append(out, Subject{regexp.QuoteMeta(v), "()"})
		}
	}
	return out
}

// path is an expression for a path: a pattern as others are, or a template with {*} for a segment and {**} for any number.
func path(v string) string {
	if !strings.Contains(v, "{") {
		return glob(v, "[^?]")
	}
	text := regexp.QuoteMeta(v)
	text = strings.ReplaceAll(text, regexp.QuoteMeta("{**}"), "[^?]*")
	return strings.ReplaceAll(text, regexp.QuoteMeta("{*}"), "[^/?]+")
}
