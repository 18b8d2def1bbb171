package console

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// failures are what proxies say about connections that did not come about, and what that means. The first that fits is taken.
var failures = []struct{ said, means string }{
	{"self-signed", "certificate not trusted: self-signed"}, {"self_signed", "certificate not trusted: self-signed"}, {"self signed", "certificate not trusted: self-signed"},
	{"unable to get local issuer", "certificate not trusted: who issued it is not known"}, {"unable_to_get_local_issuer", "certificate not trusted: who issued it is not known"},
	{"certificate has expired", "certificate not trusted: it has expired"}, {"certificate_has_expired", "certificate not trusted: it has expired"}, {"CERTIFICATE_EXPIRED", "certificate refused: it has expired"},
	{"not yet valid", "certificate not trusted: it is not valid yet"}, {"not_yet_valid", "certificate not trusted: it is not valid yet"},
	{"SAN matcher", "certificate is for another name"}, {"SAN_matcher", "certificate is for another name"}, {"verify SAN list", "certificate is for another name"}, {"verify_SAN_list", "certificate is for another name"},
	{"CERTIFICATE_VERIFY_FAILED", "certificate not trusted"},
	{"CERTIFICATE_REQUIRED", "the far end asks for a certificate"},
	{"WRONG_VERSION_NUMBER", "the far end does not speak TLS"}, {"HTTP_REQUEST", "the far end does not speak TLS"},
	{"UNSUPPORTED_PROTOCOL", "the far end speaks no version of TLS that is allowed"}, {"PROTOCOL_VERSION", "the far end speaks no version of TLS that is allowed"},
	{"HANDSHAKE_FAILURE", "no TLS parameters in common with the far end"},
	{"TLS_error", "TLS failed"},
	{"Connection_refused", "connection refused"}, {"Connection refused", "connection refused"},
	{"No_route_to_host", "no route to the address"}, {"Network_is_unreachable", "no route to the address"}, {"Network is unreachable", "no route to the address"},
	{"dns_resolution_failure", "the name could not be resolved"}, {"dns_failure", "the name could not be resolved"}, {"dns_cache", "the name could not be resolved"},
	{"no_healthy_upstream", "no address to connect to"},
	{"connection_timeout", "nobody answered in time"}, {"connect_timeout", "nobody answered in time"}, {"Connection_timed_out", "nobody answered in time"},
	{"response_timeout", "no response in time"},
	{"overflow", "too many connections at once"},
	{"immediate_connect_error", "the connection could not be made"},
	{"remote_connection_failure", "the far end closed the connection"}, {"connection_termination", "the far end closed the connection"}, {"remote_reset", "the far end reset the request"},
	{"local_reset", "the proxy reset the request"},
}

// meanings are Envoy's response flags, where nothing else was said.
var meanings = map[string]string{
	"UF": "the connection could not be made", "UH": "no address to connect to", "UT": "no response in time", "UO": "too many connections at once",
	"NC": "there is no such cluster", "LR": "the proxy reset the request", "UR": "the far end reset the request", "UC": "the far end closed the connection",
	"URX": "tried more than once", "DC": "the client left", "DR": "the client left", "UPE": "the far end broke off its answer", "DF": "the name could not be resolved", "NR": "no route is for it", "OM": "the proxy is out of memory",
}

const failed = "; failed: "

// reasonOf says why, in words. What a proxy said itself is left to the details of the record.
func reasonOf(r *record.Record) string {
	if r.Class == record.Action {
		return r.Deed()
	}
	text, raw, is := strings.Cut(r.Reason, failed)
	if !is {
		return text
	}
	for _, f := range failures {
		if strings.Contains(raw, f.said) {
			return text + "; " + f.means
		}
	}
	for _, flag := range slices.Concat(strings.Split(raw, ","), r.Flags) {
		if means := meanings[flag]; means != "" {
			return text + "; " + means
		}
	}
	return text + "; it failed"
}
