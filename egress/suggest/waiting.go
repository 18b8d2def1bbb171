package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// Wait is a workload, a host and a port of which the configuration in force says nothing yet: unregistered, or denied for want of a rule.
type Wait struct {
	Namespace, Account string
	Host               string // a name or an address
	Port               uint32 // 0 where DNS refused the name
	Why                string
	seen.Evidence
	Denied uint64 // of the records
}

// Waiting gives what waits for a word, in order. What a rule denies, or is inside the cluster, does not; nor what is no host.
func Waiting(c Config, log *seen.Log, now time.Time) (out []Wait) {
	w := newWorld(c, &Result{Log: log}, now)
	type key struct {
		namespace, account, host string
		port                     uint32
	}
	at, counted := map[key]int{}, map[*seen.Flow]bool{}
	for _, u := range w.uses(Options{Denied: true}) {
		why := w.waits(u)
		if u.wrong || why == "" {
			continue
		}
		k := key{u.Namespace, u.Account, u.Host, u.Port}
		i, known := at[k]
		if !known {
			i = len(out)
			at[k] = i
			out = append(out, Wait{Namespace: u.Namespace, Account: u.Account, Host: u.Host, Port: u.Port, Why: why})
		}
		if counted[u.Flow] { // of requests there is a use for each method
			continue
		}
		counted[u.Flow] = true
		out[i].Add(&u.Evidence)
		if !u.wasAllowed() {
			out[i].Denied += u.Records
		}
	}
	slices.SortFunc(out, func(a, b Wait) int {
		return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Account, b.Account), strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return out
}

// waits says why a use waits for a word; "" if it does not.
func (w *world) waits(u *use) string {
	v := u.base
	switch {
	case inCluster(u):
		return ""
	case v.Allowed && v.Service == nil:
		return "let through, and nobody registered it"
	case v.Allowed:
		return ""
	case v.Ruling != nil && v.Ruling.Rule == nil && !v.Ruling.Unknown && slices.ContainsFunc(w.Snapshot.OwnPolicies(u.Namespace), func(p *egresspolicy.Policy) bool { return p == v.Ruling.Policy }):
		return fmt.Sprintf("denied: no rule of %s allows it", v.Ruling.Policy.Key)
	case v.Ruling == nil && (v.Missing || w.lacksPort(u).Name != "") && w.closedBy(u).Rule == nil:
		return "denied: nobody registered it"
	default:
		return ""
	}
}
