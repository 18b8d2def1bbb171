package translate_test

import (
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestWhatWaitsHasAllFilters: a stream has the filters that the row turns on with which it begins. So where rows come on use, the routes by which requests and tunnels wait turn on each filter that any row does, of
// all goldens' gateways: without one of them, what a row says of it would pass without a word.
func TestWhatWaitsHasAllFilters(t *testing.T) {
	needed := map[string]bool{}
	for name, c := range cases(t) {
		class := c.view().Class
		if class.Kind != translate.Gateway || class.Inline {
			continue
		}
		class.Fetch = true
		view := build(translate.NewTranslator(), c.snapshot(), class, map[translate.Class]*translate.View{})
		off := offAtFront(t, view)
		for _, has := range waiting(t, view) {
			eachOf(t, view, resource.VirtualHost, func(vh *routev3.VirtualHost) {
				for _, by := range filtersOf(vh) {
					for filter, config := range by {
						if !off[filter] || isOff(t, config) {
							continue
						}
						needed[filter] = true
						if filter != envoy.FilterWeb && has[filter] == nil { // which waits in another way (ondemand.FetchTwice)
							t.Errorf("%s: the row %s turns on %s, and what waits for it does not have that", name, vh.Name, filter)
						}
					}
				}
			})
		}
	}
	for _, filter := range []string{envoy.FilterRootLed, envoy.FilterOwnLed, envoy.FilterDynamicForwardProxy, envoy.FilterWeb} {
		if !needed[filter] {
			t.Errorf("no row of any golden turns on %s", filter)
		}
	}
}

// eachOf gives a view's resources of a type.
func eachOf[M any](t *testing.T, v *translate.View, kind resource.Type, give func(M)) {
	t.Helper()
	v.Walk(kind, func(r *resource.Resource) bool {
		m, err := r.Any().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		if of, is := m.(M); is {
			give(of)
		}
		return true
	})
}

// offAtFront are the filters of requests at a gateway's listener that are off where no route turns them on.
func offAtFront(t *testing.T, v *translate.View) map[string]bool {
	t.Helper()
	off := map[string]bool{}
	eachOf(t, v, resource.Listener, func(l *listenerv3.Listener) {
		if l.GetInternalListener() != nil {
			return
		}
		for _, chain := range l.FilterChains {
			last, m := chain.Filters[len(chain.Filters)-1].GetTypedConfig(), &hcmv3.HttpConnectionManager{}
			if !last.MessageIs(m) {
				continue
			}
			if err := last.UnmarshalTo(m); err != nil {
				t.Fatal(err)
			}
			for _, f := range m.HttpFilters {
				off[f.Name] = f.Disabled
			}
		}
	})
	if len(off) == 0 {
		t.Fatal("the gateway reads no requests")
	}
	return off
}

// waiting are the filters that a gateway's table has for what waits for its row, of a tunnel and of a request.
func waiting(t *testing.T, v *translate.View) (all []map[string]*anypb.Any) {
	t.Helper()
	eachOf(t, v, resource.Route, func(table *routev3.RouteConfiguration) {
		for _, r := range table.VirtualHosts[len(table.VirtualHosts)-1].Routes {
			if r.Name == wire.FetchRoute && r.TypedPerFilterConfig[envoy.FilterDynamicForwardProxy] != nil {
				has := map[string]*anypb.Any{}
				for _, by := range []map[string]*anypb.Any{table.TypedPerFilterConfig, r.TypedPerFilterConfig} {
					for name, config := range by {
						has[name] = config
					}
				}
				all = append(all, has)
			}
		}
	})
	if len(all) != 2 {
		t.Fatalf("%d routes of the table wait, want that of tunnels and that of requests", len(all))
	}
	return all
}

// filtersOf are what a row, its routes and their destinations say of filters.
func filtersOf(vh *routev3.VirtualHost) []map[string]*anypb.Any {
	all := []map[string]*anypb.Any{vh.TypedPerFilterConfig}
	for _, r := range vh.Routes {
		if envoy.IsAnswer(r) {
			continue
		}
		all = append(all, r.TypedPerFilterConfig)
		for _, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
			all = append(all, w.TypedPerFilterConfig)
		}
	}
	return all
}

func isOff(t *testing.T, config *anypb.Any) bool {
	t.Helper()
	f := &routev3.FilterConfig{}
	return config.MessageIs(f) && config.UnmarshalTo(f) == nil && f.Disabled
}
