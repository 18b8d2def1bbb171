package interpret

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	celfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
)

// log writes what the connection manager's logs say of a request.
func (r *stream) log() {
	e := Entry{Details: r.details, Flags: r.flags, Route: r.route.GetName(), Cluster: r.cluster.GetName(), Status: 200, Metadata: r.metadata}
	if r.out.Response != nil {
		e.Status = r.out.Response.Status
	} else if slices.Contains(r.flags, "UH") {
		e.Status = 503
	}
	r.write(r.hcm.AccessLog, e)
}

// tcpEntry writes what a TCP proxy's logs say of a connection.
func (n *conn) tcpEntry(s *scope, logs []*accesslogv3.AccessLog, details string, flags []string) {
	s.write(logs, Entry{Details: details, Flags: flags, Cluster: s.cluster.GetName(), Metadata: s.metadata})
}

// write writes an entry to the logs that keep it.
func (s *scope) write(logs []*accesslogv3.AccessLog, e Entry) {
	s.entry = &e
	for _, l := range logs {
		if l.Filter != nil && !s.logged(l.Filter) {
			continue
		}
		m, err := l.GetTypedConfig().UnmarshalNew()
		if err != nil {
			unknown("access log %s: %v", l.Name, err)
		}
		var common *grpclogv3.CommonGrpcAccessLogConfig
		switch m := m.(type) {
		case *grpclogv3.HttpGrpcAccessLogConfig:
			common = m.CommonConfig
		case *grpclogv3.TcpGrpcAccessLogConfig:
			common = m.CommonConfig
		default:
			unknown("access log %s: %T", l.Name, m)
		}
		e.Log, e.Tags = common.LogName, map[string]string{}
		for _, tag := range common.CustomTags {
			e.Tags[tag.Tag] = s.fill(tag.GetValue(), "-")
		}
		s.out.Entries = append(s.out.Entries, e)
		s.step("log %s: cluster %s, route %s, %s %v %v", e.Log, e.Cluster, e.Route, e.Details, e.Flags, e.Tags)
	}
}

// logged says whether a log's filter keeps an entry.
func (s *scope) logged(f *accesslogv3.AccessLogFilter) bool {
	switch f := f.FilterSpecifier.(type) {
	case *accesslogv3.AccessLogFilter_OrFilter:
		return slices.ContainsFunc(f.OrFilter.Filters, s.logged)
	case *accesslogv3.AccessLogFilter_AndFilter:
		return !slices.ContainsFunc(f.AndFilter.Filters, func(f *accesslogv3.AccessLogFilter) bool { return !s.logged(f) })
	case *accesslogv3.AccessLogFilter_LogTypeFilter: // of what has ended, which alone is logged here
		return slices.Contains(f.LogTypeFilter.Types, datav3.AccessLogType_TcpConnectionEnd) != f.LogTypeFilter.Exclude
	case *accesslogv3.AccessLogFilter_StatusCodeFilter:
		c := f.StatusCodeFilter.Comparison
		want := c.Value.GetDefaultValue()
		switch c.Op {
		case accesslogv3.ComparisonFilter_LE:
			return s.entry.Status <= want
		case accesslogv3.ComparisonFilter_NE:
			return s.entry.Status != want
		case accesslogv3.ComparisonFilter_EQ:
			return s.entry.Status == want
		case accesslogv3.ComparisonFilter_GE:
			return s.entry.Status >= want
		}
		unknown("access log: a comparison %v", c.Op)
	case *accesslogv3.AccessLogFilter_HeaderFilter:
		return s.request != nil && matchHeader(f.HeaderFilter.Header, s.request)
	case *accesslogv3.AccessLogFilter_ResponseFlagFilter:
		return slices.ContainsFunc(s.entry.Flags, func(flag string) bool { return slices.Contains(f.ResponseFlagFilter.Flags, flag) })
	case *accesslogv3.AccessLogFilter_MetadataFilter:
		m := f.MetadataFilter
		if _, there := s.metadata[m.Matcher.Filter][m.Matcher.Path[0].GetKey()]; !there {
			return m.MatchIfKeyNotFound.GetValue()
		}
		return s.metadataHolds(m.Matcher)
	case *accesslogv3.AccessLogFilter_ExtensionFilter:
		x := unpack("access log", f.ExtensionFilter.GetTypedConfig(), &celfilterv3.ExpressionFilter{})
		v, err := evaluate(parseCEL(x.Expression), s)
		return err == nil && v.truth()
	default:
		unknown("access log: a filter of type %T", f)
	}
	return false
}
