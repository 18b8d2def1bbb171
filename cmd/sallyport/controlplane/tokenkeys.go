package controlplane

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/keys"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// mostFailing is of how many hosts of a namespace it is measured that their keys cannot be fetched; the others are measured together.
const mostFailing = 10

var keysFailing = prometheus.NewDesc("sallyport_token_keys_failing",
	"How many sets of keys for tokens could not be fetched the last time, by the namespace that wants them and their host; without a host, of those beyond a namespace's first ten.", []string{"namespace", "host"}, nil)

// keyFailures measures which keys for tokens cannot be fetched.
type keyFailures func() map[config.Key]keys.Failure

// Describe implements [prometheus.Collector].
func (keyFailures) Describe(out chan<- *prometheus.Desc) { out <- keysFailing }

// Collect implements [prometheus.Collector].
func (failing keyFailures) Collect(out chan<- prometheus.Metric) {
	counts := map[[2]string]int{}
	for key, x := range failing() {
		counts[[2]string{key.Namespace, hostOf(x.URI)}]++
	}
	order := func(a, b [2]string) int { return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) }
	said, hosts := map[[2]string]int{}, map[string]int{} // how many hosts of a namespace are said
	for _, of := range slices.SortedFunc(maps.Keys(counts), order) {
		n := counts[of]
		if hosts[of[0]]++; hosts[of[0]] > mostFailing {
			of[1] = ""
		}
		said[of] += n
	}
	for of, n := range said {
		if m, err := prometheus.NewConstMetric(keysFailing, prometheus.GaugeValue, float64(n), of[0], of[1]); err == nil {
			out <- m
		}
	}
}

func hostOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(u.Hostname(), "\uFFFD")
}

// failing is which keys cannot be fetched.
func (p *plane) failing() map[config.Key]keys.Failure {
	if all := p.keysFailing.Load(); all != nil {
		return *all
	}
	return nil
}

// noteFailing takes over which keys cannot be fetched, and tells the RequestAuthentications that want those of which it is news.
func (p *plane) noteFailing(now map[config.Key]keys.Failure) {
	before := p.failing()
	if maps.Equal(before, now) {
		return
	}
	p.keysFailing.Store(&now)
	if p.cluster == nil {
		return
	}
	s := p.snapshot.Load()
	p.updateStatuses(func() map[config.Key]status.Details {
		out := map[config.Key]status.Details{}
		for _, all := range []map[config.Key]keys.Failure{before, now} {
			for key := range all {
				if before[key] == now[key] {
					continue
				}
				for _, a := range s.AuthenticationsWanting(key) {
					if o := p.known.get(a); o != nil {
						out[a] = p.judgedDetails(s, o)
					}
				}
			}
		}
		return out
	})
}

// unfetchedKeys say which keys of a RequestAuthentication cannot be fetched, and from which rule on they are too many.
func (p *plane) unfetchedKeys(s *registry.Snapshot, key config.Key) (out []admission.Finding) {
	a := s.RequestAuthentication(key.Namespace, key.Name)
	if a == nil {
		return nil
	}
	failing, all := p.failing(), 0
	for i, r := range a.Rules {
		if all += len(r.Keys); all > tokens.MostKeyBytes && all-len(r.Keys) <= tokens.MostKeyBytes {
			out = append(out, admission.Finding{
				Severity: admission.Warning, Key: key, Field: fmt.Sprintf("spec.jwtRules[%d]", i), Value: r.Issuer,
				Message: fmt.Sprintf("the keys of all rules up to here have more than %d bytes, which no proxy is given: no token of this issuer is good, nor of those behind it", tokens.MostKeyBytes),
				Fix:     "write several RequestAuthentications, each for the workloads that take tokens of its issuers",
			})
		}
		x, fails := failing[r.From.Key(key.Namespace)]
		if r.From.URI == "" || !fails {
			continue
		}
		field := "jwksUri"
		if r.From.Discover {
			field = "issuer"
		}
		out = append(out, unfetched(key, fmt.Sprintf("spec.jwtRules[%d].%s", i, field), x))
	}
	return out
}

// unfetched says that keys cannot be fetched, what follows, and what to do.
func unfetched(of config.Key, field string, x keys.Failure) admission.Finding {
	follows := "no token of this issuer is good"
	if !x.Until.IsZero() {
		follows = "those that were fetched last count until " + x.Until.UTC().Format(time.RFC3339)
	}
	return admission.Finding{
		Severity: admission.Warning, Key: of, Field: field, Value: x.URI, Message: "keys cannot be fetched: " + x.Err + "; " + follows,
		Fix: "see that the control plane reaches " + cmp.Or(hostOf(x.URI), "it") + " and is answered 200 with a set of keys; what is inside sallyport.dns.allowPrivate can allow",
	}
}
