package envoy

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// FoldRoutes puts the routes of a row into one value, which Envoy reads as the list that it was: the first that matches is taken. Envoy keeps each row
// three times, as it came, in its table as that is told, and as it works by it; of the first two a value is bytes, and a route some 900 bytes more than
// that (docs/adr/0203-what-a-row-takes.md).
func FoldRoutes(vh *routev3.VirtualHost) {
	if len(vh.Routes) == 0 {
		return
	}
	list := &xdscorev3.TypedExtensionConfig{Name: "routes", TypedConfig: ToAny(&routev3.RouteList{Routes: vh.Routes})}
	vh.Routes, vh.Matcher = nil, &xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: list}}}
}

// UnfoldRoutes makes them routes again.
func UnfoldRoutes(vh *routev3.VirtualHost) error {
	list := vh.GetMatcher().GetOnNoMatch().GetAction().GetTypedConfig()
	if list == nil {
		return nil
	}
	routes := &routev3.RouteList{}
	if err := list.UnmarshalTo(routes); err != nil {
		return err
	}
	vh.Routes, vh.Matcher = routes.Routes, nil
	return nil
}
