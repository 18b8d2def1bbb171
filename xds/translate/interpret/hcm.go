package interpret

import (
	"slices"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
)

// stream is a request at a connection manager.
type stream struct {
	*scope
	hcm   *hcmv3.HttpConnectionManager
	table *table
	share *routev3.WeightedCluster_ClusterWeight // of the route's destinations, where there are several
	// bridged is the type that answers must have to become gRPC's; "" where they need not.
	bridged  string
	grpc     bool // it said that it is gRPC when it came: what is answered here becomes an error
	looked   bool // the name was looked up, see sending
	onDemand bool // clusters that are not there are asked for
	flags    []string
	details  string
	said     map[string]string // what a filter tells whom it asks, besides, by its row
}

// http takes a request.
func (n *conn) http(m *hcmv3.HttpConnectionManager) {
	if n.bytes.Request == nil {
		n.close("what came is no HTTP")
		return
	}
	n.trusts = m.XffNumTrustedHops
	r := &stream{scope: &scope{conn: n, request: n.bytes.Request.clone(), state: n.state.within(), metadata: map[string]map[string]string{}}, hcm: m}
	if r.table = n.tableOf(m); r.table == nil {
		r.reply(404, "route_not_found", "NR")
		r.log()
		return
	}
	kind := r.request.Headers["upgrade"]
	if r.request.Method == "CONNECT" {
		kind = "CONNECT"
	}
	if kind != "" && !takesUpgrade(m, kind) {
		r.reply(403, "upgrade_failed", "")
		r.log()
		return
	}
	if !r.normalize() {
		r.reply(400, "path_normalization_failed", "")
		r.log()
		return
	}
	r.grpc = isGRPC(r.request)
	r.mutateEarly()
	r.findRoute()
	r.run()
	r.log()
}

func takesUpgrade(m *hcmv3.HttpConnectionManager, kind string) bool {
	for _, u := range m.UpgradeConfigs {
		if strings.EqualFold(u.UpgradeType, kind) && (u.Enabled == nil || u.Enabled.Value) {
			return true
		}
	}
	return false
}

// tableOf is the connection manager's table of routes; nil where the proxy does not have it.
func (n *conn) tableOf(m *hcmv3.HttpConnectionManager) *table {
	switch s := m.RouteSpecifier.(type) {
	case *hcmv3.HttpConnectionManager_Rds:
		return n.proxy.tables[s.Rds.RouteConfigName]
	case *hcmv3.HttpConnectionManager_ScopedRoutes: // each request's own
		return &table{config: &routev3.RouteConfiguration{}}
	case *hcmv3.HttpConnectionManager_RouteConfig:
		t := &table{config: s.RouteConfig}
		t.add(s.RouteConfig.VirtualHosts)
		return t
	default:
		unknown("listener %q: routes come by %T", n.listener.Name, s)
		return nil
	}
}

// mutateEarly changes headers before anything reads them.
func (r *stream) mutateEarly() {
	for _, e := range r.hcm.EarlyHeaderMutationExtensions {
		for _, m := range unpack(e.Name, e.TypedConfig, &earlyv3.HeaderMutation{}).Mutations {
			switch by := m.Action.(type) {
			case *mutationv3.HeaderMutation_RemoveOnMatch_:
				for name := range r.request.Headers {
					if matchString(by.RemoveOnMatch.KeyMatcher, name) {
						delete(r.request.Headers, name)
					}
				}
			case *mutationv3.HeaderMutation_Remove:
				delete(r.request.Headers, by.Remove)
			case *mutationv3.HeaderMutation_Append:
				r.setEarly(e.Name, by.Append)
			default:
				unknown("%s: %T", e.Name, by)
			}
		}
	}
}

// setEarly sets a header, whatever the client said in it, or where it said none.
func (r *stream) setEarly(filter string, h *corev3.HeaderValueOption) {
	switch h.AppendAction {
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
	case corev3.HeaderValueOption_ADD_IF_ABSENT:
		if _, there := r.request.header(h.Header.Key); there {
			return
		}
	default:
		unknown("%s: %v", filter, h.AppendAction)
	}
	if v := r.fill(h.Header.Value, "-"); v != "" {
		r.request.Headers[h.Header.Key] = v
	}
}

// scoped is the table that a request's header leads to; an empty one where it leads nowhere.
func (r *stream) scoped(s *hcmv3.ScopedRoutes) *table {
	fragments := s.ScopeKeyBuilder.GetFragments()
	if len(fragments) != 1 || fragments[0].GetHeaderValueExtractor().GetIndex() != 0 {
		unknown("scoped routes %s: keys of %d fragments", s.Name, len(fragments))
	}
	key, _ := r.request.header(fragments[0].GetHeaderValueExtractor().Name)
	if t := r.proxy.tables[r.proxy.scopes[key]]; t != nil {
		return t
	}
	return &table{config: &routev3.RouteConfiguration{}}
}

// reply answers the request here.
func (r *stream) reply(status uint32, details, flag string) { r.replyWith(status, "", details, flag) }

// replyWith is reply with a body.
func (r *stream) replyWith(status uint32, body, details, flag string) {
	a := &Response{Status: status, Body: []byte(body), Details: details, Headers: map[string]string{"content-type": "text/plain"}}
	if flag != "" {
		r.flags = append(r.flags, flag)
	}
	r.mapReply(a)
	if r.grpc {
		a.Headers["content-type"] = "application/grpc: an error"
	}
	r.respond(a)
	r.step("answers %d %s", a.Status, details)
}

func (r *stream) respond(with *Response) {
	r.details = with.Details
	r.out.Response = with
}

// run runs the filters, up to the router. Which of them are left out the route says that the request has before the first one, whatever route it
// has later.
func (r *stream) run() {
	for _, f := range slices.DeleteFunc(slices.Clone(r.hcm.HttpFilters), r.isOff) {
		if r.out.Response != nil {
			break
		}
		r.filter(f)
	}
	r.unbridge()
}

// mapReply changes an answer of the proxy's own as the connection manager's first mapper says whose filter keeps it.
func (r *stream) mapReply(a *Response) {
	r.entry = &Entry{Details: a.Details, Flags: r.flags, Status: a.Status}
	r.body = string(a.Body)
	for _, m := range r.hcm.GetLocalReplyConfig().GetMappers() {
		if r.logged(m.Filter) {
			r.mapped(a, m)
			return
		}
	}
}

func (r *stream) mapped(a *Response, m *hcmv3.ResponseMapper) {
	if m.StatusCode != nil {
		a.Status = m.StatusCode.Value
	}
	if f := m.BodyFormatOverride; f != nil {
		a.Body = []byte(r.formatted(f))
		if f.ContentType != "" {
			a.Headers["content-type"] = f.ContentType
		} else if f.GetJsonFormat() != nil {
			a.Headers["content-type"] = "application/json"
		}
	}
	for _, h := range m.HeadersToAdd {
		a.Headers[h.Header.Key] = r.fill(h.Header.Value, "")
	}
}
