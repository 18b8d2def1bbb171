package route

import (
	"regexp"
	"slices"
	"strings"
)

// Variables are those of Envoy's format strings that a header's value may have: about the request, its connections and the
// answer. What would tell of the proxy itself (its environment, files, filter state and metadata) is none of them: a
// shared gateway's is not for rent. https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#command-operators
var Variables = []string{
	"PROTOCOL", "START_TIME", "REQ", "RESP", "TRAILER", "RESPONSE_CODE", "RESPONSE_CODE_DETAILS", "RESPONSE_FLAGS", "REQUESTED_SERVER_NAME", "ROUTE_NAME",
	"UPSTREAM_CLUSTER", "UPSTREAM_HOST", "UPSTREAM_LOCAL_ADDRESS", "UPSTREAM_REMOTE_ADDRESS", "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "UPSTREAM_REMOTE_PORT",
	"DOWNSTREAM_REMOTE_ADDRESS", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_REMOTE_PORT",
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_DIRECT_REMOTE_PORT",
	"DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_LOCAL_PORT",
	"DOWNSTREAM_LOCAL_URI_SAN", "DOWNSTREAM_PEER_URI_SAN", "DOWNSTREAM_LOCAL_SUBJECT", "DOWNSTREAM_PEER_SUBJECT", "DOWNSTREAM_PEER_ISSUER",
	"DOWNSTREAM_PEER_SERIAL", "DOWNSTREAM_PEER_FINGERPRINT_256", "DOWNSTREAM_PEER_CERT", "DOWNSTREAM_PEER_CERT_V_START", "DOWNSTREAM_PEER_CERT_V_END",
	"DOWNSTREAM_TLS_CIPHER", "DOWNSTREAM_TLS_VERSION", "DOWNSTREAM_TLS_SESSION_ID", "HOSTNAME", "CONNECTION_ID", "STREAM_ID",
}

var (
	variableForm = regexp.MustCompile(`^%([A-Z0-9_]+)(?:\(([^()]*)\))?(:[0-9]{1,5})?%`)
	headerArg    = regexp.MustCompile(`^:?[-A-Za-z0-9_]+(\?:?[-A-Za-z0-9_]+)?$`)
	timeArg      = regexp.MustCompile(`^[-%A-Za-z0-9:/., _]*$`)
)

// Formats says whether a header's value is a format string that Envoy takes, with no other Variables than those.
func Formats(value string) bool {
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return false
	}
	for {
		at := strings.IndexByte(value, '%')
		if at < 0 {
			return true
		}
		if value = value[at:]; strings.HasPrefix(value, "%%") {
			value = value[2:]
			continue
		}
		m := variableForm.FindStringSubmatch(value)
		if m == nil || !slices.Contains(Variables, m[1]) || !takes(m[1], m[2], m[3], strings.Contains(m[0], "(")) {
			return false
		}
		value = value[len(m[0]):]
	}
}

// takes says whether a variable takes an argument and a length.
func takes(name, arg, length string, argued bool) bool {
	switch name {
	case "REQ", "RESP", "TRAILER":
		return headerArg.MatchString(arg)
	case "START_TIME":
		return length == "" && timeArg.MatchString(arg)
	case "DOWNSTREAM_PEER_CERT_V_START", "DOWNSTREAM_PEER_CERT_V_END":
		return length == "" && timeArg.MatchString(arg)
	default:
		return length == "" && !argued
	}
}
