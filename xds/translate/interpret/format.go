package interpret

import (
	"encoding/json"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// scope is what formats and expressions are about: a connection, and the request on it if there is one.
type scope struct {
	*conn
	request *Request
	state   filterState // the connection's, or the request's
	// metadata is dynamic, by filter; likewise.
	metadata map[string]map[string]string
	vhost    *routev3.VirtualHost
	route    *routev3.Route
	cluster  *clusterv3.Cluster
	claims   map[string]any // of the request's token, once it was verified
	entry    *Entry         // being written, or as far as it is known when the proxy answers by itself
	body     string         // of the answer that is being changed
}

// formatted fills a format string in, where what Envoy does not know is nothing.
func (s *scope) formatted(f *corev3.SubstitutionFormatString) string {
	missing := "-"
	if f.OmitEmptyValues {
		missing = ""
	}
	switch f := f.GetFormat().(type) {
	case *corev3.SubstitutionFormatString_TextFormatSource:
		if bytes := f.TextFormatSource.GetInlineBytes(); bytes != nil {
			return s.fill(string(bytes), missing)
		}
		return s.fill(f.TextFormatSource.GetInlineString(), missing)
	case *corev3.SubstitutionFormatString_JsonFormat:
		filled := map[string]string{}
		for key, text := range textsOf(f.JsonFormat) {
			filled[key] = s.fill(text, missing)
		}
		out, _ := json.Marshal(filled) // texts do marshal
		return string(out) + "\n"
	default:
		unknown("a format string of type %T", f)
		return ""
	}
}

// fill fills a format in: "%COMMAND(ARGUMENT)%", and "%%" for "%".
func (s *scope) fill(format, missing string) string {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(format, "%")
		b.WriteString(text)
		if !found {
			return b.String()
		}
		if after, ok := strings.CutPrefix(rest, "%"); ok {
			b.WriteByte('%')
			format = after
			continue
		}
		var command, argument string
		open := strings.IndexAny(rest, "(%")
		if open < 0 {
			unknown("the format %q has no end", format)
		}
		if rest[open] == '%' {
			command, format = rest[:open], rest[open+1:]
		} else {
			end := strings.Index(rest, ")%")
			if end < 0 {
				unknown("the format %q has no end", format)
			}
			command, argument, format = rest[:open], rest[open+1:end], rest[end+2:]
		}
		if value, ok := s.value(command, argument); ok {
			b.WriteString(value)
		} else {
			b.WriteString(missing)
		}
	}
}

// value is what a command of a format gives; false where Envoy does not know it.
func (s *scope) value(command, argument string) (string, bool) {
	switch command {
	case "DOWNSTREAM_LOCAL_ADDRESS":
		s.mustBeOutside(command)
		return s.to.String(), true
	case "DOWNSTREAM_REMOTE_ADDRESS":
		if s.request != nil || s.trusts > 0 {
			unknown("%%%s%% of a request", command)
		}
		s.mustBeOutside(command)
		return s.from.String(), true
	case "DOWNSTREAM_LOCAL_PORT":
		s.mustBeOutside(command)
		return strconv.Itoa(int(s.to.Port())), true
	case "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT":
		if s.request != nil || s.trusts > 0 {
			unknown("%%%s%% of a request", command)
		}
		s.mustBeOutside(command)
		return s.from.Addr().String(), true
	case "DOWNSTREAM_DIRECT_LOCAL_ADDRESS": // for an agent alone, which finds the connection by it
		return "127.0.0.1:15001", true
	case "DOWNSTREAM_DIRECT_REMOTE_ADDRESS":
		s.mustBeOutside(command)
		return s.from.String(), true
	case "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT":
		s.mustBeOutside(command)
		return s.from.Addr().String(), true
	case "DOWNSTREAM_PEER_URI_SAN":
		return strings.Join(s.peer, ","), len(s.peer) > 0
	case "REQUESTED_SERVER_NAME":
		return s.sni, s.sni != ""
	case "REQ":
		return s.headerOf(argument)
	case "REQUEST_DURATION":
		return "0", true // of a request that has come whole, as all here
	case "FILTER_STATE":
		key, ok := strings.CutSuffix(argument, ":PLAIN")
		if !ok {
			unknown("%%FILTER_STATE(%s)%%: not as PLAIN", argument)
		}
		v, ok := s.state[key]
		return v.text, ok
	case "DYNAMIC_METADATA":
		filter, key, ok := strings.Cut(argument, ":")
		if !ok || strings.Contains(key, ":") {
			unknown("%%DYNAMIC_METADATA(%s)%%", argument)
		}
		v, ok := s.metadata[filter][key]
		return v, ok
	case "RESPONSE_CODE_DETAILS":
		return s.entry.Details, s.entry.Details != ""
	case "LOCAL_REPLY_BODY":
		return s.body, true
	case "METADATA":
		return s.metadataOf(argument)
	case "CEL":
		v, err := evaluate(parseCEL(argument), s)
		if err != nil {
			return "", false
		}
		return v.text(), true
	default:
		unknown("the command %%%s%% of a format", command)
		return "", false
	}
}

func (s *scope) mustBeOutside(command string) {
	if !s.to.IsValid() {
		unknown("%%%s%% of a connection inside of Envoy, at listener %s", command, s.listener.Name)
	}
}

// headerOf is "%REQ(NAME)%" or "%REQ(NAME?OTHER)%".
func (s *scope) headerOf(argument string) (string, bool) {
	if s.request == nil {
		return "", false
	}
	name, other, _ := strings.Cut(argument, "?")
	if strings.ContainsAny(argument, "):") && !strings.HasPrefix(argument, ":") {
		unknown("%%REQ(%s)%%", argument)
	}
	v, ok := s.request.header(name)
	if !ok && other != "" {
		v, ok = s.request.header(other)
	}
	return v, ok
}

// metadataOf is "%METADATA(CLUSTER:NAMESPACE:KEY)%", and the same of ROUTE and VIRTUAL_HOST.
func (s *scope) metadataOf(argument string) (string, bool) {
	parts := strings.Split(argument, ":")
	if len(parts) != 3 {
		unknown("%%METADATA(%s)%%", argument)
	}
	var of *corev3.Metadata
	switch parts[0] {
	case "LISTENER":
		of = s.listener.GetMetadata()
	case "CLUSTER":
		of = s.cluster.GetMetadata()
	case "ROUTE":
		of = s.route.GetMetadata()
	case "VIRTUAL_HOST":
		of = s.vhost.GetMetadata()
	default:
		unknown("%%METADATA(%s)%%", argument)
	}
	v, ok := of.GetFilterMetadata()[parts[1]].GetFields()[parts[2]]
	return v.GetStringValue(), ok
}

// texts are the strings in a metadata's structs.
func texts(m *corev3.Metadata) map[string]map[string]string {
	out := map[string]map[string]string{}
	for ns, of := range m.GetFilterMetadata() {
		out[ns] = textsOf(of)
	}
	return out
}

func textsOf(s *structpb.Struct) map[string]string {
	out := map[string]string{}
	for k, v := range s.GetFields() {
		text, ok := v.Kind.(*structpb.Value_StringValue)
		if !ok {
			unknown("metadata %q: a value that is no string", k)
		}
		out[k] = text.StringValue
	}
	return out
}
