package mesh

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
)

// Authorizer is one of extensionProviders that is asked whether a request may pass: envoyExtAuthzGrpc, or envoyExtAuthzHttp. Others of them
// are not read.
type Authorizer struct {
	Name string
	GRPC bool
	// Namespace is whose registration of Host is meant; "" for what the root namespace sees.
	Namespace, Host string
	Port            uint32
	Timeout         time.Duration
	FailOpen        bool   // whoever cannot be asked says yes
	StatusOnError   uint32 // what clients are answered when it cannot be asked, and does not say yes
	ClearRouteCache bool   // what it makes of a request's headers finds the route anew
	Body            *AuthorizerBody

	// What follows is of those that are asked by HTTP. Names of headers may be "name", "name*" or "*name".
	PathPrefix  string
	SentHeaders []string // of the request, which it is told beside the usual ones
	Added       []AuthorizerHeader
	// Of the headers of its answer: what goes on to the app, and what clients are told, where it says no, and yes.
	Upstream, OnDeny, OnAllow []string
}

// AuthorizerBody says how much of a request's body an authorizer is told.
type AuthorizerBody struct {
	Most         uint32 // bytes; longer bodies are refused with 413, unless Partial
	Partial, Raw bool   // what is read until then is told; as bytes, in place of a text
}

// AuthorizerHeader is a header that an authorizer is told with every request.
type AuthorizerHeader struct{ Name, Value string }

const (
	// AuthorizerTimeout is how long is waited for an authorizer that says nothing of it, as in Istio.
	AuthorizerTimeout = 10 * time.Minute
	// bodyLargest is what of a body may be held back at most: as much as proxies buffer of a connection.
	bodyLargest = 1 << 20
)

// Authorizer finds one by its name; nil when there is none.
func (c *Config) Authorizer(name string) *Authorizer {
	if i := slices.IndexFunc(c.Authorizers, func(a Authorizer) bool { return a.Name == name }); i >= 0 {
		return &c.Authorizers[i]
	}
	return nil
}

// providers reads extensionProviders.
type providers struct {
	at       string // the field of the one that is read
	problems []strict.Problem
}

func (p *providers) add(field, value, message, fix string) {
	p.problems = append(p.problems, problem(p.at+"."+field, value, message, fix))
}

func (c *Config) applyProviders(list []*meshconfig.MeshConfig_ExtensionProvider) []strict.Problem {
	p := providers{}
	seen := map[string]bool{}
	for i, in := range list {
		p.at = fmt.Sprintf("extensionProviders[%d]", i)
		if in.Name == "" || seen[in.Name] || strings.ContainsFunc(in.Name, func(r rune) bool { return r <= ' ' || r == ',' }) {
			p.add("name", in.Name, "is no name, or another provider's", "give each a name of its own, without spaces and commas")
		}
		seen[in.Name] = true
		var a Authorizer
		switch {
		case in.GetEnvoyExtAuthzGrpc() != nil:
			a = p.byGRPC(in.GetEnvoyExtAuthzGrpc())
		case in.GetEnvoyExtAuthzHttp() != nil:
			a = p.byHTTP(in.GetEnvoyExtAuthzHttp())
		default:
			continue
		}
		a.Name = in.Name
		c.Authorizers = append(c.Authorizers, a)
	}
	return p.problems
}

func (p *providers) byGRPC(in *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider) Authorizer {
	const field = "envoyExtAuthzGrpc"
	a := p.common(field, in)
	a.GRPC, a.FailOpen, a.ClearRouteCache = true, in.FailOpen, in.ClearRouteCache
	return a
}

func (p *providers) byHTTP(in *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider) Authorizer {
	const field = "envoyExtAuthzHttp"
	a := p.common(field, in)
	a.FailOpen, a.ClearRouteCache, a.PathPrefix = in.FailOpen, in.ClearRouteCache, in.PathPrefix
	if in.PathPrefix != "" && (in.PathPrefix[0] != '/' || strings.ContainsAny(in.PathPrefix, "?# ")) {
		p.add(field+".pathPrefix", in.PathPrefix, "is no beginning of a path", `write it as in "/check"`)
	}
	a.SentHeaders = in.IncludeRequestHeadersInCheck
	// the older name of the field counts without the newer one
	if old := in.IncludeHeadersInCheck; len(a.SentHeaders) == 0 {
		a.SentHeaders = old
	}
	for _, name := range slices.Sorted(maps.Keys(in.IncludeAdditionalHeadersInCheck)) {
		a.Added = append(a.Added, AuthorizerHeader{name, in.IncludeAdditionalHeadersInCheck[name]})
		if !isHeaderName(name) || strings.EqualFold(name, "host") || strings.ContainsAny(in.IncludeAdditionalHeadersInCheck[name], "\r\n\x00") {
			p.add(field+".includeAdditionalHeadersInCheck", name, "is no header, or has a value that is none", "write a header's name and value")
		}
	}
	a.Upstream, a.OnDeny, a.OnAllow = in.HeadersToUpstreamOnAllow, in.HeadersToDownstreamOnDeny, in.HeadersToDownstreamOnAllow
	for _, x := range []struct {
		field string
		names []string
	}{{"includeRequestHeadersInCheck", a.SentHeaders}, {"headersToUpstreamOnAllow", a.Upstream}, {"headersToDownstreamOnDeny", a.OnDeny}, {"headersToDownstreamOnAllow", a.OnAllow}} {
		for _, name := range x.names {
			if name != "*" && !isHeaderName(strings.TrimPrefix(strings.TrimSuffix(name, "*"), "*")) {
				p.add(field+"."+x.field, name, "is no header's name", "write NAME, PREFIX* or *SUFFIX")
			}
		}
	}
	return a
}

// asked is what both kinds say alike.
type asked interface {
	GetService() string
	GetPort() uint32
	GetTimeout() *durationpb.Duration
	GetStatusOnError() string
	GetIncludeRequestBodyInCheck() *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody
}

func (p *providers) common(field string, in asked) Authorizer {
	a := Authorizer{Port: in.GetPort(), Timeout: AuthorizerTimeout, StatusOnError: http.StatusForbidden}
	ns, name, scoped := strings.Cut(in.GetService(), "/")
	if !scoped {
		ns, name = "", in.GetService()
	}
	parsed, err := host.ParseExact(name)
	if err != nil || scoped && len(validation.IsDNS1123Label(ns)) > 0 {
		p.add(field+".service", in.GetService(), "is no host", `write the full name of a Service or of a ServiceEntry's host, as in "authz.team.svc.cluster.local", after "NAMESPACE/" where several register it`)
	}
	a.Namespace, a.Host = ns, string(parsed)
	if a.Port == 0 || a.Port > 65535 {
		p.add(field+".port", strconv.FormatUint(uint64(a.Port), 10), "is no port", "write a number from 1 to 65535")
	}
	if t := in.GetTimeout(); t != nil {
		if a.Timeout = t.AsDuration(); a.Timeout <= 0 {
			p.add(field+".timeout", a.Timeout.String(), "is no time to wait for", `write a duration as in "1s"`)
		}
	}
	if text := in.GetStatusOnError(); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if _, known := typev3.StatusCode_name[int32(n)]; err != nil || !known || n < 200 {
			p.add(field+".statusOnError", text, "is no status of HTTP that proxies know", `write a number as in "503"`)
		}
		a.StatusOnError = uint32(n)
	}
	if b := in.GetIncludeRequestBodyInCheck(); b != nil {
		a.Body = &AuthorizerBody{b.MaxRequestBytes, b.AllowPartialMessage, b.PackAsBytes}
		if b.MaxRequestBytes == 0 || b.MaxRequestBytes > bodyLargest {
			p.add(field+".includeRequestBodyInCheck.maxRequestBytes", strconv.FormatUint(uint64(b.MaxRequestBytes), 10), "is not what proxies hold back of a body", "write a number of bytes from 1 to 1048576")
		}
	}
	return a
}

func isHeaderName(name string) bool {
	return name != "" && len(validation.IsHTTPHeaderName(name)) == 0
}
