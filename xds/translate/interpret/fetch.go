package interpret

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
)

// What a table says whose rows are given when they are used, what the proxy tells its agent besides when it asks for rows, and the header by which that says yes (xds/ondemand).
const (
	fetchKeep     = "fetch_keep"
	saidTable     = "table"
	saidWhole     = "authority"
	saidTwice     = "twice"
	fetchedHeader = "x-sallyport-fetched"
)

// fetchedOnUse says whether a proxy begins without a table's rows, and is given those that it asks its agent for.
func fetchedOnUse(t *routev3.RouteConfiguration) bool {
	return t.GetMetadata().GetFilterMetadata()["sallyport"].GetFields()[fetchKeep] != nil
}

// Forget takes all rows away that the agent gave.
func (p *Proxy) Forget() {
	for name := range p.fetched {
		t := &table{config: p.tables[name].config}
		t.add(t.config.VirtualHosts)
		p.tables[name] = t
	}
}

// fetch gives the proxy what its agent would for an authority: its row, and, with a pattern's, those that it would hide.
func (p *Proxy) fetch(name, authority string) {
	of := p.fetched[name]
	if of == nil {
		unknown("table %s: its agent is asked for rows, and it is none whose rows are fetched", name)
	}
	row := of.host(authority)
	if row == nil {
		return
	}
	given := []*routev3.VirtualHost{row}
	for _, domain := range row.Domains {
		if end, pattern := strings.CutPrefix(domain, "*"); pattern {
			for _, in := range []map[string]*routev3.VirtualHost{of.exact, of.suffixes} {
				for other, vh := range in {
					if strings.HasSuffix(other, end) {
						given = append(given, vh)
					}
				}
			}
		}
	}
	for _, vh := range given {
		if !p.tables[name].has(vh) {
			p.tables[name].add([]*routev3.VirtualHost{vh})
		}
	}
}

// has says whether a virtual host is among them.
func (t *table) has(vh *routev3.VirtualHost) bool {
	domain := strings.ToLower(vh.Domains[0])
	return t.exact[domain] == vh || strings.HasPrefix(domain, "*") && t.suffixes[domain[1:]] == vh
}

// fetchRow asks the agent for what there is for a request's, or a question's, authority. A stream has then its route looked for anew.
func (r *stream) fetchRow(m *extauthzv3.ExtAuthz) {
	if r.said[saidWhole] == "" {
		unknown("the agent is asked for rows without the whole authority")
	}
	r.step("asks the agent for what there is for %s", r.request.Authority)
	r.proxy.fetch(r.said[saidTable], r.request.Authority)
	if r.said[saidTwice] != "" {
		r.reply(503, "ext_authz_denied", "UAEX")
		return
	}
	r.request.Headers[fetchedHeader] = "yes"
	if m.ClearRouteCache {
		r.findRoute()
	}
}
