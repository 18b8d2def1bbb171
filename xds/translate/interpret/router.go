package interpret

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// router does what the route says.
func (r *stream) router() {
	switch tls := r.vhost.GetRequireTls(); {
	case tls == routev3.VirtualHost_ALL && !r.shaken:
		r.reply(301, "tls_redirect", "")
		r.out.Response.Headers["location"] = "https://" + r.request.Authority + r.request.Path
		return
	case tls != routev3.VirtualHost_NONE && tls != routev3.VirtualHost_ALL:
		unknown("virtual host %s: require_tls %s", r.vhost.Name, tls)
	case r.route == nil:
		r.reply(404, "route_not_found", "NR")
		return
	}
	switch a := r.route.Action.(type) {
	case *routev3.Route_DirectResponse:
		r.direct(a.DirectResponse)
	case *routev3.Route_Redirect:
		r.redirect(a.Redirect)
	case *routev3.Route_Route:
		r.forward(a.Route)
	default:
		unknown("route %s: %T", r.route.Name, a)
	}
}

// direct answers with what is written.
func (r *stream) direct(a *routev3.DirectResponseAction) {
	body := ""
	switch b := a.GetBody().GetSpecifier().(type) {
	case nil:
	case *corev3.DataSource_InlineBytes:
		body = string(b.InlineBytes)
	case *corev3.DataSource_InlineString:
		body = b.InlineString
	default:
		unknown("route %s: a body of type %T", r.route.Name, b)
	}
	if a.BodyFormat != nil {
		body = r.formatted(a.BodyFormat)
	}
	r.replyWith(a.Status, body, "direct_response", "")
	for _, h := range r.route.ResponseHeadersToAdd {
		r.out.Response.Headers[h.Header.Key] = r.fill(h.Header.Value, "")
	}
}

var redirectStatus = map[routev3.RedirectAction_RedirectResponseCode]uint32{
	routev3.RedirectAction_MOVED_PERMANENTLY: 301, routev3.RedirectAction_FOUND: 302, routev3.RedirectAction_SEE_OTHER: 303,
	routev3.RedirectAction_TEMPORARY_REDIRECT: 307, routev3.RedirectAction_PERMANENT_REDIRECT: 308,
}

// redirect answers with where else to ask.
func (r *stream) redirect(a *routev3.RedirectAction) {
	r.reply(redirectStatus[a.ResponseCode], "direct_response", "")
	host, path := r.request.Authority, r.request.Path
	if a.HostRedirect != "" {
		host = a.HostRedirect
	}
	switch p := a.PathRewriteSpecifier.(type) {
	case nil:
	case *routev3.RedirectAction_PathRedirect:
		path = p.PathRedirect
	case *routev3.RedirectAction_PrefixRewrite:
		path = p.PrefixRewrite + strings.TrimPrefix(path, r.route.Match.GetPrefix())
	default:
		unknown("route %s: redirect: %T", r.route.Name, p)
	}
	r.out.Response.Headers["location"] = host + path
}

// forward sends the request on.
func (r *stream) forward(a *routev3.RouteAction) {
	name := r.target(a)
	r.cluster = r.proxy.cluster(name, r.onDemand)
	if r.cluster == nil {
		r.step("no cluster %q", name)
		r.reply(notFound(r.route.GetRoute()), "cluster_not_found", "NC")
		return
	}
	r.rewrite(a)
	bytes := Bytes{Request: r.request}
	for _, u := range a.UpgradeConfigs {
		if u.UpgradeType != "CONNECT" {
			unknown("route %s: upgrades of type %s", r.route.Name, u.UpgradeType)
		}
		if u.ConnectConfig != nil && r.request.Method == "CONNECT" {
			bytes = r.inside()
		}
	}
	r.step("request for %s%s goes to %s", r.request.Authority, r.request.Path, name)
	before := r.out.Closed
	r.send(&sending{cluster: r.cluster, bytes: bytes, state: r.state, conn: r.conn, looked: r.looked, flags: &r.flags, mirrors: mirrors(a)})
	switch {
	case r.out.Response != nil:
		r.details = "via_upstream"
	case r.out.Closed != before && bytes.Request != nil:
		r.out.Closed = before
		r.reply(503, "upstream_reset_before_response_started{connection_termination}", "UC")
	case len(r.flags) > 0:
		r.details = "no_healthy_upstream"
	default:
		r.details = "via_upstream"
	}
}

// inside are the bytes of a tunnel that ends here.
func (r *stream) inside() Bytes {
	if r.request.Tunnel == nil {
		return Bytes{Waits: true}
	}
	return *r.request.Tunnel
}

// target is the name of the cluster.
func (r *stream) target(a *routev3.RouteAction) string {
	switch c := a.ClusterSpecifier.(type) {
	case *routev3.RouteAction_Cluster:
		return c.Cluster
	case *routev3.RouteAction_ClusterHeader:
		v, _ := r.request.header(c.ClusterHeader)
		return v
	case *routev3.RouteAction_WeightedClusters:
		return r.share.GetName()
	default:
		unknown("route %s: to %T", r.route.Name, c)
		return ""
	}
}

// weighted picks one of several destinations, when the route is found.
func (r *stream) weighted(w *routev3.WeightedCluster) *routev3.WeightedCluster_ClusterWeight {
	total := uint64(0)
	for _, c := range w.Clusters {
		total += uint64(c.Weight.GetValue())
	}
	if total == 0 {
		unknown("route %s: no cluster has a weight", r.route.Name)
	}
	at := r.chance % total
	for _, c := range w.Clusters {
		weight := uint64(c.Weight.GetValue())
		if at < weight {
			return c
		}
		at -= weight
	}
	return nil
}

func mirrors(a *routev3.RouteAction) (out []string) {
	for _, m := range a.RequestMirrorPolicies {
		out = append(out, m.Cluster)
	}
	return out
}

// rewrite changes the request as the route, its virtual host and its table say; first headers, then host and path.
func (r *stream) rewrite(a *routev3.RouteAction) {
	t := r.table.config
	r.addHeaders(r.share.GetRequestHeadersToAdd(), r.share.GetRequestHeadersToRemove())
	r.addHeaders(r.route.RequestHeadersToAdd, r.route.RequestHeadersToRemove)
	r.addHeaders(r.vhost.RequestHeadersToAdd, r.vhost.RequestHeadersToRemove)
	r.addHeaders(t.RequestHeadersToAdd, t.RequestHeadersToRemove)
	switch h := a.HostRewriteSpecifier.(type) {
	case nil:
	case *routev3.RouteAction_HostRewriteLiteral:
		r.request.Authority = h.HostRewriteLiteral
	case *routev3.RouteAction_HostRewriteHeader:
		if v, ok := r.request.header(h.HostRewriteHeader); ok && v != "" {
			r.request.Authority = v
		}
	default:
		unknown("route %s: host rewritten by %T", r.route.Name, h)
	}
	if host := r.share.GetHostRewriteLiteral(); host != "" {
		r.request.Authority = host
	}
	path, query, found := strings.Cut(r.request.Path, "?")
	switch {
	case a.PrefixRewrite != "":
		path = a.PrefixRewrite + path[len(matchedPath(r.route.Match, path)):]
	case a.RegexRewrite != nil:
		path = compiledPart(a.RegexRewrite.Pattern.GetRegex()).ReplaceAllString(path, groups(a.RegexRewrite.Substitution))
	}
	if r.request.Path = path; found {
		r.request.Path += "?" + query
	}
}

// matchedPath is the part of a path that prefix_rewrite puts another in the place of.
func matchedPath(m *routev3.RouteMatch, path string) string {
	switch p := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Prefix:
		return p.Prefix
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return p.PathSeparatedPrefix
	default:
		return path
	}
}

// groups is a substitution in Go's words: RE2 says \1 for $1.
func groups(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$':
			b.WriteString("$$")
		case s[i] == '\\' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			i++
			b.WriteString("${" + string(s[i]) + "}")
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// addHeaders adds and removes headers of the request.
func (r *stream) addHeaders(add []*corev3.HeaderValueOption, remove []string) {
	for _, name := range remove {
		delete(r.request.Headers, strings.ToLower(name))
	}
	for _, h := range add {
		name, value := strings.ToLower(h.Header.Key), r.fill(h.Header.Value, "")
		if value == "" && !h.KeepEmptyValue {
			continue
		}
		was, there := r.request.header(name)
		switch h.AppendAction {
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
		case corev3.HeaderValueOption_ADD_IF_ABSENT:
			if there {
				continue
			}
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
			if !there {
				continue
			}
		case corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			if there {
				value = was + "," + value
			}
		default:
			unknown("header %s: %v", name, h.AppendAction)
		}
		if name == "host" || name == ":authority" {
			r.request.Authority = value
			continue
		}
		if strings.HasPrefix(name, ":") {
			unknown("a route sets the header %s", name)
		}
		r.request.Headers[name] = value
	}
}

// notFound is the answer where there is no such cluster.
func notFound(a *routev3.RouteAction) uint32 {
	switch a.GetClusterNotFoundResponseCode() {
	case routev3.RouteAction_INTERNAL_SERVER_ERROR:
		return 500
	case routev3.RouteAction_NOT_FOUND:
		return 404
	default:
		return 503
	}
}
