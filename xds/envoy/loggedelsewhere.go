package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	setmetadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// filterLoggedElsewhere begins the names of the filters that note of requests who else logs them, if they get there: LoggedAtGateway or LoggedAtPod. They are off where no
// row says so (MarkLoggedBy).
//
// To ask an expression instead, of what became of a request, takes Envoy 8 to 17 µs for each (docs/adr/0008-what-the-path-costs.md), which is a fifth of what a sidecar does
// for one.
const filterLoggedElsewhere = "sallyport.told."

// MarkLoggedBy marks a row whose requests somebody else logs: "" for nobody.
func MarkLoggedBy(row *routev3.Route, by string) *routev3.Route {
	if by == "" {
		return row
	}
	return EnableFilters(row, filterLoggedElsewhere+by)
}

// The dynamic metadata that they write.
const (
	loggedElsewhereMetadata = "sallyport.told"
	loggedElsewhereBy       = "by"
)

// loggedElsewhereFilters are those filters. They come last, so that what the others answer by themselves is nobody else's to log.
func loggedElsewhereFilters(mesh bool) []*hcmv3.HttpFilter {
	out := []*hcmv3.HttpFilter{off(notes(LoggedAtGateway))}
	if !mesh {
		out = append(out, off(notes(LoggedAtPod)))
	}
	return out
}

func notes(by string) *hcmv3.HttpFilter {
	return httpFilter(filterLoggedElsewhere+by, &setmetadatav3.Config{Metadata: []*setmetadatav3.Metadata{{MetadataNamespace: loggedElsewhereMetadata, Value: fields(loggedElsewhereBy, by)}}})
}

// notLoggedElsewhere is true of requests that nobody else logs, and of those that did not go as they should: each of Envoy's own errors has a flag. A client that leaves is
// none, but then a gateway may not have heard of its request.
func notLoggedElsewhere() *accesslogv3.AccessLogFilter {
	return anyOf(unsaidBy(loggedElsewhereMetadata, loggedElsewhereBy), flagged(failures...), allOf(saidBy(loggedElsewhereMetadata, loggedElsewhereBy, LoggedAtGateway), flagged(clientLeft)))
}

// clientLeft is the flag of a client that closes its connection; failures are all others, but those of what is done on purpose (delays).
const clientLeft = "DC"

var failures = []string{"LH", "UH", "UT", "LR", "UR", "UF", "UC", "UO", "NR", "FI", "RL", "UAEX", "RLSE", "IH", "SI", "DPE", "URX", "UMSDR", "RFCF", "NFCF", "DT", "UPE", "NC", "OM", "DF", "DO", "DR"}
