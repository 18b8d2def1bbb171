package suggest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// use is what a flow stands for, as Decide is asked about it: of requests, one for each method.
type use struct {
	*seen.Flow
	who    policy.Workload
	method string
	paths  *seen.Paths // nil but of requests
	// tries are requests or connections that stand for all of it, and allowed those that are let through by what is in force.
	tries, allowed []policy.Destination
	base           policy.Verdict // of the first that is allowed, else of the first
	// wrong says that the host is none, and idle that nothing is made of it: nothing that is made of others may close it.
	wrong, idle bool
}

// guessedPort is what a name is suggested with that DNS refused: nobody knows the port that would have been connected to.
const guessedPort = 443

// uses reads the flows that options ask for. What is no host is said to be left out.
func (w *world) uses(o Options) (out []*use) {
	for _, f := range w.result.Log.Flows {
		if o.Namespace != "" && f.Namespace != o.Namespace || f.Verdict == record.Denied && !o.Denied || f.Protocol == "dns" && f.Verdict != record.Denied {
			continue
		}
		if _, app := f.App(); o.Workload != "" && f.Account != o.Workload && app != o.Workload {
			continue
		}
		why := cmp.Or(wrongWorkload(f), wrongName(f.Host))
		if why != "" {
			w.result.leave(f, why)
		}
		for _, u := range w.usesOf(f) {
			u.wrong = why != ""
			u.idle = u.wrong || o.Only != nil && !o.Only(f)
			out = append(out, u)
		}
	}
	return out
}

func (w *world) usesOf(f *seen.Flow) (out []*use) {
	who := policy.Workload{Namespace: f.Namespace, Account: f.Account, Labels: f.LabelMap()}
	to := policy.Destination{Scheme: schemeOf(f), Host: f.Host, Port: cmp.Or(f.Port, guessedPort), At: w.now}
	if f.Protocol != "http" {
		return append(out, w.judge(&use{Flow: f, who: who, tries: []policy.Destination{to}}))
	}
	for _, method := range slices.Sorted(maps.Keys(f.Requests)) {
		u := &use{Flow: f, who: who, method: readMethod(method), paths: f.Requests[method]}
		for _, path := range u.paths.Examples() {
			to.Method, to.Path = u.method, path
			u.tries = append(u.tries, to)
		}
		out = append(out, w.judge(u))
	}
	return out
}

// judge asks what is in force.
func (w *world) judge(u *use) *use {
	for i, to := range u.tries {
		v := w.decide(w.Snapshot, u.who, to)
		if i == 0 || v.Allowed && len(u.allowed) == 0 {
			u.base = v
		}
		if v.Allowed {
			u.allowed = append(u.allowed, to)
		}
	}
	return u
}

// readMethod is a method that rules can name; "" for any.
func readMethod(m string) string {
	for _, c := range m {
		if c < 'A' || c > 'Z' {
			return ""
		}
	}
	if len(m) > 32 {
		return ""
	}
	return m
}

func schemeOf(f *seen.Flow) policy.Scheme {
	switch {
	case f.Protocol == "http":
		return policy.HTTP
	case f.Protocol == "tcp":
		return policy.TCP
	case f.Port == 443 || f.Port == 0:
		return policy.HTTPS
	default:
		return policy.TLS
	}
}

// wasAllowed says whether the log says so.
func (u *use) wasAllowed() bool { return u.Verdict == record.Allowed }

// keeps says whether it was seen allowed, and is today.
func (u *use) keeps() bool { return u.wasAllowed() && len(u.allowed) > 0 }

// closedBy is the rule in force that denies all of a use, were it registered; zero without one. What is meant to be denied is not suggested.
func (w *world) closedBy(u *use) (by egresspolicy.Ruling) {
	set := w.Snapshot.PolicySet(u.Namespace, u.Account, u.who.Labels).Enforced()
	for _, to := range u.tries {
		path, _, _ := strings.Cut(cmp.Or(to.Path, "/"), "?")
		by = set.Rule(&egresspolicy.Attempt{
			Host: to.Host, Port: to.Port, Protocol: seenAs(u), Method: cmp.Or(to.Method, "GET"), Path: path, At: w.now,
			Header: func(string) (string, bool) { return "", false },
		})
		if by.Action != egresspolicy.Deny || by.Rule == nil {
			return egresspolicy.Ruling{}
		}
	}
	return by
}

// seenAs is how policies call what a proxy sees of a use.
func seenAs(u *use) egresspolicy.Protocol {
	switch u.Protocol {
	case "http":
		return egresspolicy.HTTP
	case "tcp":
		return egresspolicy.TCP
	default:
		return egresspolicy.TLS
	}
}
