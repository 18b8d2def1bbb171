package envoylog

import datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

// flags gives Envoy's response flags in their short form.
func flags(f *datav3.ResponseFlags) []string {
	if f == nil {
		return nil
	}
	var out []string
	for _, x := range [...]struct {
		set  bool
		name string
	}{
		{f.GetFailedLocalHealthcheck(), "LH"},
		{f.GetNoHealthyUpstream(), "UH"},
		{f.GetUpstreamRequestTimeout(), "UT"},
		{f.GetLocalReset(), "LR"},
		{f.GetUpstreamRemoteReset(), "UR"},
		{f.GetUpstreamConnectionFailure(), "UF"},
		{f.GetUpstreamConnectionTermination(), "UC"},
		{f.GetUpstreamOverflow(), "UO"},
		{f.GetNoRouteFound(), "NR"},
		{f.GetRateLimited(), "RL"},
		{f.GetUnauthorizedDetails() != nil, "UAEX"},
		{f.GetDownstreamConnectionTermination(), "DC"},
		{f.GetUpstreamRetryLimitExceeded(), "URX"},
		{f.GetStreamIdleTimeout(), "SI"},
		{f.GetDownstreamProtocolError(), "DPE"},
		{f.GetUpstreamProtocolError(), "UPE"},
		{f.GetUpstreamMaxStreamDurationReached(), "UMSDR"},
		{f.GetNoClusterFound(), "NC"},
		{f.GetOverloadManager(), "OM"},
		{f.GetDnsResolutionFailure(), "DF"},
	} {
		if x.set {
			out = append(out, x.name)
		}
	}
	return out
}
