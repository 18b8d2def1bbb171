package admission

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// requestAuthentication judges what Istio's own admission does, and what would mean nothing here.
func (r *report) requestAuthentication(p *security.RequestAuthentication) {
	r.selection(p.Selector, p.TargetRef, p.TargetRefs)
	if r.of.Annotations[authz.DryRunAnnotation] == "true" {
		r.warn("metadata.annotations", "true", "tokens are verified all the same: there are no dry runs of a RequestAuthentication", "remove "+authz.DryRunAnnotation)
	}
	for i, rule := range p.JwtRules {
		r.tokenRule(at("spec.jwtRules", i), rule)
	}
	if n := len(keySets(&r.of, p)); n > tokens.MostSets {
		r.tooManySets(n)
	}
}

func (r *report) tokenRule(field string, rule *security.JWTRule) {
	if rule.Issuer == "" {
		r.reject(field+".issuer", nil, "it is missing", "write what tokens say as iss")
	}
	switch {
	case rule.Jwks != "" && rule.JwksUri != "":
		r.reject(field+".jwks", nil, "keys are given, or where they are", "remove jwks or jwksUri")
	case rule.Jwks != "":
		if err := tokens.CheckKeys(rule.Jwks); err != nil {
			r.reject(field+".jwks", nil, "no token can be verified by it: "+err.Error(), "write a set of keys (RFC 7517 section 5) that holds the issuer's public keys")
		}
	case rule.JwksUri != "":
		r.keysURI(field+".jwksUri", rule.JwksUri)
	case rule.Issuer != "" && !isWebURL(rule.Issuer):
		r.warn(field+".issuer", rule.Issuer, "it says nowhere where its keys are, so no token of it is good", "write jwksUri or jwks; an issuer that is a URL says where its keys are by OpenID Connect Discovery")
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"audiences", rule.Audiences}, {"fromParams", rule.FromParams}, {"fromCookies", rule.FromCookies}, {"spaceDelimitedClaims", rule.SpaceDelimitedClaims}} {
		if slices.Contains(list.values, "") {
			r.reject(field+"."+list.name, nil, "a value is empty", "remove it")
		}
	}
	for i, h := range rule.FromHeaders {
		r.tokenHeader(at(field+".fromHeaders", i, "name"), h.GetName())
	}
	if rule.OutputPayloadToHeader != "" {
		r.tokenHeader(field+".outputPayloadToHeader", rule.OutputPayloadToHeader)
	}
	r.claimHeaders(field+".outputClaimToHeaders", rule)
	if rule.Timeout != nil && rule.Timeout.AsDuration() <= 0 {
		r.reject(field+".timeout", rule.Timeout.AsDuration(), "is no time to wait", "write a duration above 0s")
	}
}

func (r *report) claimHeaders(field string, rule *security.JWTRule) {
	seen := []string{strings.ToLower(rule.OutputPayloadToHeader)}
	for i, c := range rule.OutputClaimToHeaders {
		r.tokenHeader(at(field, i, "header"), c.GetHeader())
		if c.GetClaim() == "" {
			r.reject(at(field, i, "claim"), nil, "it is missing", "name the claim")
		}
		name := strings.ToLower(c.GetHeader())
		if name != "" && slices.Contains(seen, name) {
			r.reject(at(field, i, "header"), c.Header, "is written twice", "write each header once")
		}
		seen = append(seen, name)
	}
}

// tokenHeader judges the name of a header that a token is in, or that is made of it.
func (r *report) tokenHeader(field, name string) {
	if !isHeaderName(name) {
		r.reject(field, name, "is no name of a header", "write letters, digits and hyphens")
	}
}

// keysURI judges where keys are.
func (r *report) keysURI(field, text string) {
	if !isWebURL(text) {
		r.reject(field, text, "is no address of a set of keys", "write an http or https URL, as https://issuer.example/keys")
	}
}

// keySets are the sets of keys that are fetched for an object.
func keySets(of *config.Object, p *security.RequestAuthentication) map[config.Key]bool {
	out := map[config.Key]bool{}
	for _, rule := range tokens.FromSpec(of, p, func(tokens.Source) string { return "" }).Rules {
		if rule.From.URI != "" {
			out[rule.From.Key(of.Namespace)] = true
		}
	}
	return out
}

func (r *report) tooManySets(n int) {
	r.reject("spec.jwtRules", n, "too many sets of keys to fetch for one namespace", fmt.Sprintf("let all rules of namespace %s name at most %d, or write keys themselves as jwks", r.of.Namespace, tokens.MostSets))
}

// judgeKeySets counts an object's sets of keys among its namespace's, and refuses one that goes beyond with others.
func (w *world) judgeKeySets(r *report, p *security.RequestAuthentication) {
	all := w.keySets[r.of.Namespace]
	if all == nil {
		all = map[config.Key]bool{}
		w.keySets[r.of.Namespace] = all
	}
	own, before := keySets(&r.of, p), len(all)
	maps.Copy(all, own)
	if len(all) > max(before, tokens.MostSets) && len(own) <= tokens.MostSets {
		r.tooManySets(len(all))
	}
}

// judgeKeysPlace warns of keys that are inside, where nobody fetches any: whoever writes the object would have the control plane ask there.
func (w *world) judgeKeysPlace(r *report, p *security.RequestAuthentication) {
	for i, rule := range p.JwtRules {
		field, text := at("spec.jwtRules", i, "jwksUri"), rule.JwksUri
		if text == "" {
			field, text = at("spec.jwtRules", i, "issuer"), rule.Issuer
		}
		if u, err := url.Parse(text); rule.Jwks == "" && err == nil && isWebURL(text) && w.refusesKeysAt(r.of.Namespace, u.Hostname()) {
			r.warn(field, text, "it leads inside, to an address that sallyport.dns.allowPrivate does not name, and no keys are fetched there: no token of this issuer is good",
				"write the keys themselves as jwks, or allow the host in the mesh settings with sallyport.dns.allowPrivateFor."+r.of.Namespace+" (or allowPrivate, for all)")
		}
	}
}

// refusesKeysAt says whether it is known of a host that its keys are not fetched for a namespace: it is an address inside, the control plane's own host, or a Service.
func (w *world) refusesKeysAt(ns, name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	at, err := netip.ParseAddr(name)
	if spec := w.specs[w.serviceName(name)]; err != nil && spec != nil {
		at, err = netip.ParseAddr(spec.Spec.ClusterIP)
	}
	if err != nil && inside.OwnName(name) {
		at, err = netip.IPv6Loopback(), nil
	}
	return err == nil && w.cfg.DNS.PrivateFor(ns).Refuses(name, at.Unmap())
}

// serviceName completes the name of a Service, as "web.shop.svc", with the cluster's domain.
func (w *world) serviceName(name string) host.Name {
	if short, is := strings.CutSuffix(name, ".svc"); is {
		return host.Name(short + "." + clusterDomain)
	}
	return host.Name(name)
}

// isWebURL says whether something can be fetched from there.
func isWebURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || !isHost(u.Hostname()) {
		return false
	}
	n, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && n != 0
}

// isHost says whether something is an address, or a name as DNS has them.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := host.ParseExact(strings.ReplaceAll(strings.TrimSuffix(text, "."), "_", "u")) // resolvers take underscores
	return err == nil
}

// judgeTokens says where a RequestAuthentication is kept nowhere: of one with targets, where no gateway that is known has it; of others the
// same in a mesh without mutual TLS, where sidecars keep none.
func (w *world) judgeTokens(r *report, p *security.RequestAuthentication) {
	w.judgeKeySets(r, p)
	w.judgeKeysPlace(r, p)
	a := tokens.FromSpec(&r.of, p, func(tokens.Source) string { return "" })
	const open = "tokens that are forged or out of date are let through"
	defer func() { w.judgeTargets(r, p, a.Workloads) }()
	w.judgeClasses(r, a.Workloads, open)
	w.judgeWaypointsSelected(r, a.Workloads, open)
	if len(a.Rules) == 0 || w.cfg.MutualTLS && !a.Targeted {
		return
	}
	switch known, selected := w.gatewaysSelected(a.Workloads); {
	case w.fronted(a.Workloads) && !selected && len(a.Classes) == 0:
		r.reject("spec.targetRefs", nil, "waypoints verify tokens for all Services that they stand before, and not for single ones: "+open, "target the Gateway that is the waypoint")
	case a.Targeted && known && !selected && len(a.Classes) == 0:
		r.reject("spec", nil, noTarget+open, fixTarget)
	case a.Targeted:
	case len(a.Selector) == 0 || known && !selected:
		r.reject("spec", nil, "tokens are verified at gateways only in this mesh, and elsewhere "+open, fixKept)
	}
}
