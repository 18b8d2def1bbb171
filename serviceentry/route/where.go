package route

import (
	"net/netip"
	"slices"
)

// Mesh is the name of all sidecars among gateways.
const Mesh = "mesh"

// Source is the workload at whose proxy a route is asked for.
type Source interface {
	// Carries says whether its labels have all that a selector asks for.
	Carries(selector map[string]string) bool
}

// Labels are a workload's own.
type Labels map[string]string

// Carries says whether they hold all of the selector.
func (l Labels) Carries(selector map[string]string) bool {
	for k, v := range selector {
		if has, ok := l[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// Scope is the proxy, and its listener, at which a route is asked for. Everything about it is known before there is any
// request.
type Scope struct {
	Gateway   string   // Mesh, or a Gateway object as "NAMESPACE/NAME"
	Ports     []uint32 // of which any is meant: at a sidecar the one that was dialled, at a gateway those of the servers that have the host
	Namespace string   // the proxy's
	Source    Source   // nil has no labels
	// ReadsTokens says that it verifies tokens before it follows routes, so that matches may ask for claims: ingress gateways do.
	ReadsTokens bool
}

// At makes the place of a sidecar's port.
func At(port uint32, namespace string, source Source) Scope {
	return Scope{Gateway: Mesh, Ports: []uint32{port}, Namespace: namespace, Source: source}
}

// Where is what all matches say of the place at which they count. All of it has to hold.
type Where struct {
	Port            uint32            `json:",omitempty"` // 0: any
	Gateways        []string          // the match's, or else those of its VirtualService: Mesh, or "NAMESPACE/NAME"
	Named           bool              `json:",omitempty"` // the match itself names the gateways
	SourceLabels    map[string]string `json:",omitempty"`
	SourceNamespace string            `json:",omitempty"`
}

// At says whether the match counts at a place. At a gateway that the match itself names, sourceLabels and sourceNamespace are
// not asked: they are about workloads of the mesh. At others they are about the gateway's own pods, as in Istio.
func (w Where) At(p Scope) bool {
	if !slices.Contains(w.Gateways, p.Gateway) || (w.Port != 0 && !slices.Contains(p.Ports, w.Port)) {
		return false
	}
	if p.Gateway != Mesh && w.Named {
		return true
	}
	if w.SourceNamespace != "" && w.SourceNamespace != p.Namespace {
		return false
	}
	return len(w.SourceLabels) == 0 || (p.Source != nil && p.Source.Carries(w.SourceLabels))
}

// Request is one request, or one connection, as the proxy sees it.
type Request struct {
	Place     Scope
	Method    string              // "GET"
	Scheme    string              // "http" or "https"
	Authority string              // the Host as the client sent it, with its port if it has one
	Path      string              // with its query: "/a?b=c"
	Headers   map[string][]string // by names in lower case
	SNI       string              // of a TLS connection, in lower case
	Dialled   netip.Addr          // where the client connected to
	// Claims gives a claim's texts, of a token that was verified: of a list those in it. nil where there is no token.
	Claims  func(path []string) []string
	Unknown *Unknown // nil: all of it is known
}

// Unknown says what nobody knows of a request, which is one of the past. What is not known is taken for none, and Asked names it once
// something depends on it: what then follows may not be so.
type Unknown struct {
	Path, Query, Headers bool
	Asked                string
}

// AddressAsked notes that something depends on the client's address, where that is not known.
func (r Request) AddressAsked() {
	if r.Unknown != nil {
		r.Unknown.asks("the client's address")
	}
}

// TokenAsked notes that something depends on the request's token, which nobody has of one of the past.
func (r Request) TokenAsked() {
	if r.Unknown != nil {
		r.Unknown.asks("the request's token")
	}
}

// asks notes that something depends on what is not known.
func (u *Unknown) asks(what string) {
	if u.Asked == "" {
		u.Asked = what
	}
}

// PathAsked and HeaderAsked note, where they are not known, that something depends on them, and say so.
func (r *Request) PathAsked() bool {
	if r.Unknown == nil || !r.Unknown.Path {
		return false
	}
	r.Unknown.asks("the path")
	return true
}

// HeaderAsked is like PathAsked.
func (r *Request) HeaderAsked(name string) bool {
	if r.Unknown == nil || !r.Unknown.Headers {
		return false
	}
	r.Unknown.asks("the header " + name)
	return true
}

// queryAsked is like PathAsked.
func (r *Request) queryAsked() bool {
	if r.Unknown == nil || !r.Unknown.Query {
		return false
	}
	r.Unknown.asks("the query")
	return true
}
