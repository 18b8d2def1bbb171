package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// RenameClusters has routes lead to clusters by other names, also those that answer questions. name is asked about each, and gives it back where it stays.
func RenameClusters(routes []*routev3.Route, name func(cluster string) string) {
	for _, r := range routes {
		switch action := r.GetAction().(type) {
		case *routev3.Route_Route:
			redirectRequests(action.Route, name)
		case *routev3.Route_DirectResponse:
			if IsAnswer(r) {
				redirectAnswer(action.DirectResponse, name)
			}
		}
	}
}

func redirectRequests(a *routev3.RouteAction, name func(string) string) {
	switch to := a.ClusterSpecifier.(type) {
	case *routev3.RouteAction_Cluster:
		to.Cluster = name(to.Cluster)
	case *routev3.RouteAction_WeightedClusters:
		for _, c := range to.WeightedClusters.Clusters {
			c.Name = name(c.Name)
		}
	}
	for _, m := range a.RequestMirrorPolicies {
		m.Cluster = name(m.Cluster)
	}
}

func redirectAnswer(a *routev3.DirectResponseAction, name func(string) string) {
	var answer servicev3.RateLimitResponse
	if err := proto.Unmarshal(a.GetBody().GetInlineBytes(), &answer); err != nil {
		panic("translate: an answer does not unmarshal: " + err.Error()) // it was made here
	}
	fields, renamed := answer.GetDynamicMetadata().GetFields(), false
	for _, key := range [...]string{sayCluster, SayBehind} {
		if v, said := fields[key]; said {
			was := v.GetStringValue()
			if now := name(was); now != was {
				fields[key], renamed = structpb.NewStringValue(now), true
			}
		}
	}
	if renamed {
		a.Body = inlineBytes(answerBody(&answer))
	}
}
