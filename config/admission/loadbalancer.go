package admission

import (
	"fmt"
	"math/big"
	"strings"
	"unicode"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/localities"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

func (r *report) loadBalancer(field string, l *networking.LoadBalancerSettings) {
	if l == nil {
		return
	}
	r.consistentHash(at(field, "consistentHash"), l.GetConsistentHash())
	localities.Check(at(field, "localityLbSetting"), l.LocalityLbSetting, r.reject)
	for i, f := range l.GetZoneAwareLbSetting().GetFailover() {
		localities.Failover(at(field, "zoneAwareLbSetting.failover", i), f.From, f.To, r.reject)
	}
	r.positive(at(field, "warmupDurationSecs"), l.WarmupDurationSecs)
	r.warmup(at(field, "warmup"), l.Warmup)
	r.warmsUp(field, l)
}

// warmsUp tells where nobody warms up: Envoy has it for endpoints that are asked in turn, or by who has least to do.
func (r *report) warmsUp(field string, l *networking.LoadBalancerSettings) {
	if l.GetConsistentHash() == nil && l.GetSimple() != networking.LoadBalancerSettings_RANDOM {
		return
	}
	tell := func(name string) {
		r.warn(at(field, name), nil, "new endpoints have their whole share at once: they are chosen by a hash, or at random", "remove it, or write simple: ROUND_ROBIN or LEAST_REQUEST")
	}
	if l.Warmup != nil {
		tell("warmup")
	}
	if l.WarmupDurationSecs != nil {
		tell("warmupDurationSecs")
	}
}

func (r *report) consistentHash(field string, h *networking.LoadBalancerSettings_ConsistentHashLB) {
	if h == nil {
		return
	}
	switch key := h.HashKey.(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		r.hashedName(at(field, "httpHeaderName"), key.HttpHeaderName)
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		r.hashedName(at(field, "httpQueryParameterName"), key.HttpQueryParameterName)
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		r.cookie(at(field, "httpCookie"), key.HttpCookie)
	case nil:
		r.warn(field, nil, "says not what is hashed, so each request's endpoint is chosen at random", "write one of httpHeaderName, httpCookie, httpQueryParameterName and useSourceIp")
	}
	if h.MinimumRingSize != 0 && h.HashAlgorithm != nil {
		r.reject(at(field, "minimumRingSize"), h.MinimumRingSize, "cannot be set together with ringHash or maglev", "write ringHash.minimumRingSize instead")
	}
	r.ringSize(at(field, "minimumRingSize"), h.MinimumRingSize)
	r.ringSize(at(field, "ringHash.minimumRingSize"), h.GetRingHash().GetMinimumRingSize())
	if m := h.GetMaglev(); m != nil {
		r.tableSize(at(field, "maglev.tableSize"), m.TableSize)
	}
}

// hashedName judges what is hashed of a request by its name: Envoy refuses an empty one, with all that came along.
func (r *report) hashedName(field, name string) {
	if name == "" {
		r.reject(field, nil, "it is empty", "write the name, or remove it")
	}
	r.printable(field, name)
}

// mostEntries is below the size of Envoy's largest Maglev table.
const mostEntries = 5000011

// ringSize warns of a ring that proxies are not given.
func (r *report) ringSize(field string, n uint64) {
	if n > registry.MostInTable {
		r.warn(field, n, fmt.Sprintf("is more than proxies are given, which is %d", registry.MostInTable), fmt.Sprintf("write at most %d", registry.MostInTable))
	}
}

func (r *report) tableSize(field string, n uint64) {
	if n == 0 || n >= mostEntries || !new(big.Int).SetUint64(n).ProbablyPrime(0) {
		r.reject(field, n, "is no size of a Maglev table", "write a prime number below 5000011, as in 65537")
	}
}

// printable rejects control characters in what becomes part of a header: Envoy refuses them, with all that came along.
func (r *report) printable(field, value string) {
	if strings.ContainsFunc(value, unicode.IsControl) {
		r.reject(field, value, "holds a control character", "remove it")
	}
}

func (r *report) cookie(field string, c *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) {
	if c.Name == "" {
		r.reject(at(field, "name"), nil, "it is missing", "write the cookie's name")
	}
	r.printable(at(field, "name"), c.Name)
	r.printable(at(field, "path"), c.Path)
	seen := map[string]bool{}
	for i, a := range c.Attributes {
		r.printable(at(field, "attributes", i, "name"), a.GetName())
		r.printable(at(field, "attributes", i, "value"), a.GetValue())
		name := strings.ToLower(a.GetName())
		switch {
		case name == "":
			r.reject(at(field, "attributes", i, "name"), nil, "it is missing", "write the attribute's name, as in SameSite")
		case seen[name]:
			r.reject(at(field, "attributes", i, "name"), a.Name, "the attribute is there twice", "write each attribute once")
		}
		seen[name] = true
	}
}

func (r *report) warmup(field string, w *networking.WarmupConfiguration) {
	if w == nil {
		return
	}
	if w.Duration == nil {
		r.reject(at(field, "duration"), nil, "it is missing", `write it, as in "30s"`)
	}
	r.positive(at(field, "duration"), w.Duration)
	if p := w.MinimumPercent.GetValue(); p < 0 || p > 100 {
		r.reject(at(field, "minimumPercent"), p, "is no percentage", "write a number from 0 to 100")
	}
	if a := w.Aggression; a != nil && a.Value <= 0 {
		r.reject(at(field, "aggression"), a.Value, "is not above 0", "write 1 for a linear start, or more")
	}
}
