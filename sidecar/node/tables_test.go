package node

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	listenerstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/ambient"
)

// naming is a template of what pods send, whose filter says something of ports.
func naming(t *testing.T, name, ports string) *discoveryv3.Resource {
	t.Helper()
	config := packed(t, &listenerstatev3.Config{OnAccept: []*statev3.FilterStateValue{{Key: &statev3.FilterStateValue_ObjectKey{ObjectKey: ports}}}})
	other := packed(t, &listenerstatev3.Config{})
	return &discoveryv3.Resource{Name: name, Resource: packed(t, &listenerv3.Listener{
		Name: name, Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "0.0.0.0"}}},
		ListenerFilters: []*listenerv3.ListenerFilter{
			{Name: "another", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: other}},
			{Name: ambient.TablesFilter, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: config}},
		},
	})}
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	out, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// toldIn is what Envoy reads of ports in a file.
func toldIn(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var response discoveryv3.DiscoveryResponse
	var extension corev3.TypedExtensionConfig
	var config listenerstatev3.Config
	if err := proto.Unmarshal(content, &response); err != nil || len(response.Resources) != 1 || response.VersionInfo == "" {
		t.Fatalf("%s: %v (%v)", file, &response, err)
	}
	if err := response.Resources[0].UnmarshalTo(&extension); err != nil || extension.Name != ambient.TablesFilter {
		t.Fatalf("%s: the extension %q (%v)", file, extension.Name, err)
	}
	if err := extension.TypedConfig.UnmarshalTo(&config); err != nil {
		t.Fatal(err)
	}
	return config.OnAccept[0].GetObjectKey()
}

// TestPortsChangeNoListener: which ports have tables is told to Envoy by a file for each template, before there are listeners that read it; a port that comes changes
// that file, and no listener of any pod.
func TestPortsChangeNoListener(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tables")
	l := newListeners(slog.New(slog.DiscardHandler), folder)
	own := ambient.OutboundOf("team-a")
	if refused := l.apply([]*discoveryv3.Resource{naming(t, ambient.PodOutbound, "80"), naming(t, own, "80~team-a")}, nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	l.open("shop/1", podListener{values: map[string]string{ambient.Network: "/n/1"}})
	l.open("team-a/1", podListener{values: map[string]string{ambient.Network: "/n/2"}, outbound: own})
	for pod, file := range map[string]string{"shop/1": filepath.Join(folder, "pod-outbound.pb"), "team-a/1": filepath.Join(folder, "pod-outbound~team-a.pb")} {
		var m listenerv3.Listener
		if err := l.now["pod-outbound/"+pod].resource("").GetResource().UnmarshalTo(&m); err != nil {
			t.Fatal(err)
		}
		from := m.ListenerFilters[1].GetConfigDiscovery()
		if m.ListenerFilters[0].GetTypedConfig() == nil || from.GetConfigSource().GetPathConfigSource().GetPath() != file || len(from.GetTypeUrls()) != 1 {
			t.Errorf("%s: its filters are %v", pod, m.ListenerFilters)
		}
	}
	before := maps.Clone(l.now)
	if refused := l.apply([]*discoveryv3.Resource{naming(t, own, "80~team-a, 81~team-a")}, nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	if got := toldIn(t, filepath.Join(folder, "pod-outbound~team-a.pb")); got != "80~team-a, 81~team-a" {
		t.Errorf("the namespace's pods are told of %s", got)
	}
	if got := toldIn(t, filepath.Join(folder, "pod-outbound.pb")); got != "80" {
		t.Errorf("all other pods are told of %s", got)
	}
	for name, was := range before {
		if now := l.now[name]; now == nil || now.version != was.version {
			t.Errorf("%s: another port changed it", name)
		}
	}
}

// TestPortsThatCannotBeTold: where the file cannot be written, what the controller gave is refused with the reason, and pods go on by what was.
func TestPortsThatCannotBeTold(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tables")
	l := newListeners(slog.New(slog.DiscardHandler), folder)
	l.apply([]*discoveryv3.Resource{naming(t, ambient.PodOutbound, "80")}, nil)
	l.open("shop/1", podListener{values: map[string]string{ambient.Network: "/n/1"}})
	was := l.now["pod-outbound/shop/1"].version
	file := filepath.Join(folder, "pod-outbound.pb")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	refused := l.apply([]*discoveryv3.Resource{naming(t, ambient.PodOutbound, "80, 81")}, nil)
	if refused[ambient.PodOutbound] == nil {
		t.Error("it was taken")
	}
	if now := l.now["pod-outbound/shop/1"].version; now != was {
		t.Error("the pod's listener is another one")
	}
	outside := ambient.PodOutbound + "~../../" + "elsewhere"
	if refused := l.apply([]*discoveryv3.Resource{naming(t, outside, "80")}, nil); refused[outside] == nil {
		t.Error("a template's name that leads out of the folder was taken")
	}
}
