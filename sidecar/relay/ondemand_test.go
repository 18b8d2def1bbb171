package relay

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// shelf is an OnDemand whose bodies are in memory, with one stream's state.
func shelf() (*OnDemand, *demand) {
	o := NewOnDemand(slog.New(slog.DiscardHandler))
	o.body = func(_ context.Context, name string) (*discoveryv3.Resource, error) {
		if v := o.version(name); v != "" {
			return &discoveryv3.Resource{Name: name, Version: v}, nil
		}
		return nil, nil
	}
	d := newDemand(o)
	o.streams[d] = struct{}{}
	return o, d
}

// answer gives the next response as "name=version" and "-name".
func answer(t *testing.T, d *demand) []string {
	t.Helper()
	resp, err := d.response(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range resp.GetResources() {
		out = append(out, r.GetName()+"="+r.GetVersion())
	}
	for _, name := range resp.GetRemovedResources() {
		out = append(out, "-"+name)
	}
	slices.Sort(out)
	return out
}

func change(o *OnDemand, set map[string]string, removed ...string) {
	var changed []*discoveryv3.Resource
	for _, name := range slices.Sorted(maps.Keys(set)) {
		changed = append(changed, &discoveryv3.Resource{Name: name, Version: set[name]})
	}
	o.Watch().Apply(changed, removed)
}

func TestOnDemand(t *testing.T) {
	o, d := shelf()
	change(o, map[string]string{"a": "1", "b": "1"})
	hold := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, answer(t, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	hold("nothing was asked for")
	d.request(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"a", "none"}})
	hold("asked for one that is there and one that is not", "-none", "a=1")
	hold("nothing changed")
	change(o, map[string]string{"a": "2", "b": "2", "none": "1"})
	hold("a change reaches who asked, and what was missing comes", "a=2", "none=1")
	change(o, nil, "a")
	hold("removed", "-a")
	hold("and said once")
	d.request(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"a"}})
	hold("asked again", "-a")
	d.request(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: []string{"none"}})
	change(o, map[string]string{"none": "2"})
	hold("unsubscribed")
	d.request(&discoveryv3.DeltaDiscoveryRequest{ErrorDetail: &statuspb.Status{Message: "bad"}})
	hold("a refusal asks for nothing")
}

func TestOnDemandReconnect(t *testing.T) {
	o, d := shelf()
	change(o, map[string]string{"a": "2", "b": "1"})
	d.request(&discoveryv3.DeltaDiscoveryRequest{
		ResourceNamesSubscribe:  []string{"a", "b", "gone"},
		InitialResourceVersions: map[string]string{"a": "1", "b": "1", "gone": "1"},
	})
	if diff := cmp.Diff([]string{"-gone", "a=2"}, answer(t, d)); diff != "" {
		t.Errorf("what Envoy kept is not sent again (-want +got):\n%s", diff)
	}
}

func TestOnDemandPokesStreams(t *testing.T) {
	o, d := shelf()
	change(o, map[string]string{"a": "1"})
	select {
	case <-d.changed:
	default:
		t.Error("the stream was not told")
	}
}
