package node

import (
	"log/slog"
	"maps"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/original_src/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/wire"
)

func template(t *testing.T, name string) *discoveryv3.Resource {
	t.Helper()
	body, err := proto.Marshal(&listenerv3.Listener{Name: name, Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "0.0.0.0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Resource: &anypb.Any{TypeUrl: ListenerType, Value: body}}
}

// TestTemplates: a pod has one of each template, in its own network and with its own values; other listeners are as they came; pods that
// come and go change nothing of others.
func TestTemplates(t *testing.T) {
	l := newListeners(slog.New(slog.DiscardHandler), t.TempDir())
	if refused := l.apply([]*discoveryv3.Resource{template(t, ambient.PodOutbound), template(t, ambient.PodInbound), template(t, "ask")}, nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	if len(l.now) != 1 || l.now["ask"] == nil {
		t.Errorf("without pods: %v", l.now)
	}
	l.open("a/1", podListener{values: map[string]string{ambient.Network: "/n/1", ambient.Identity: "spiffe://x"}})
	first := l.now["pod-outbound/a/1"]
	var m listenerv3.Listener
	if first == nil || proto.Unmarshal(first.resource("").GetResource().GetValue(), &m) != nil {
		t.Fatalf("no listener of the pod: %v", l.now)
	}
	if at := m.GetAddress().GetSocketAddress().GetNetworkNamespaceFilepath(); at != "/n/1" {
		t.Errorf("it is opened in %q", at)
	}
	if got := m.GetMetadata().GetFilterMetadata()[ambient.MetadataKey].GetFields()[ambient.Identity].GetStringValue(); got != "spiffe://x" {
		t.Errorf("it is of %q", got)
	}
	l.open("b/1", podListener{values: map[string]string{ambient.Network: "/n/2"}})
	l.close("b/1")
	if now := l.now["pod-outbound/a/1"]; now.version != first.version || len(l.now) != 3 {
		t.Errorf("another pod changed it, or stayed: %v", l.now)
	}
}

// TestSharedBytes: what is the same in all pods is kept once, and each listener is what it would be if it were made alone.
func TestSharedBytes(t *testing.T) {
	l := newListeners(slog.New(slog.DiscardHandler), t.TempDir())
	at := &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "0.0.0.0"}}}
	made := &listenerv3.Listener{
		Name: ambient.PodOutbound, Address: at, AdditionalAddresses: []*listenerv3.AdditionalAddress{{Address: at}}, StatPrefix: "stat",
		Metadata:     &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"other": {}, ambient.MetadataKey: {}}},
		FilterChains: []*listenerv3.FilterChain{{Name: "chain"}},
	}
	made.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1))
	for _, stat := range []string{"stat", "other"} { // another template takes the place of the first
		made.StatPrefix = stat
		body, err := proto.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		l.apply([]*discoveryv3.Resource{{Name: made.Name, Resource: &anypb.Any{TypeUrl: ListenerType, Value: body}}}, nil)
		var shared *byte
		for _, pod := range []string{"a/1", "b/1"} {
			d := podListener{values: map[string]string{ambient.Network: "/n/" + pod}, ipv6: true}
			l.open(pod, d)
			entry, got := l.now["pod-outbound/"+pod], &listenerv3.Listener{}
			unpack(t, entry.resource("").Resource, got)
			want, err := d.listener(proto.CloneOf(made), pod)
			if err != nil || !proto.Equal(got, want) {
				t.Errorf("%s: %v (%v), want %v", pod, got, err, want)
			}
			if shared != nil && shared != &entry.shared[0] {
				t.Error("another pod has bytes of its own")
			}
			shared = &entry.shared[0]
		}
	}
}

// TestBothFamilies: where a pod has IPv6, its listeners are opened for both, in its network; where it has not, Envoy is asked for none of it.
func TestBothFamilies(t *testing.T) {
	at := func(address string) *corev3.Address {
		return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: address}}}
	}
	template := &listenerv3.Listener{Name: ambient.PodInbound, Address: at("0.0.0.0"), AdditionalAddresses: []*listenerv3.AdditionalAddress{{Address: at("::")}}}
	own, err := proto.Marshal(&listenerv3.Listener{Name: ambient.PodInbound, Address: at("0.0.0.0")})
	if err != nil {
		t.Fatal(err)
	}
	for _, templates := range []map[string][]byte{nil, {ambient.PodInbound: own}} {
		for _, has := range []bool{false, true} {
			m, err := podListener{values: map[string]string{ambient.Network: "/n/1"}, ipv6: has, templates: templates}.listener(template, "a/1")
			if err != nil {
				t.Fatal(err)
			}
			if got := len(m.AdditionalAddresses); got != map[bool]int{true: 1}[has] {
				t.Errorf("with IPv6 %t: %d addresses more", has, got)
			}
			for _, a := range m.AdditionalAddresses {
				if s := a.GetAddress().GetSocketAddress(); s.Address != "::" || s.NetworkNamespaceFilepath != "/n/1" {
					t.Errorf("opened at %v", s)
				}
			}
		}
	}
}

// TestMarksApart: connections that take their clients' addresses are marked as the rules in the pod know them, whatever mark they came with.
func TestMarksApart(t *testing.T) {
	filter := &listenerv3.ListenerFilter{ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: packed(t, &originalsrcv3.OriginalSrc{Mark: wire.ProxyMark})}}
	tunnels := &hcmv3.HttpConnectionManager{HttpFilters: []*hcmv3.HttpFilter{{ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(t, &httpsrcv3.OriginalSrc{Mark: wire.ProxyMark})}}}}
	for kind, template := range map[string]*listenerv3.Listener{
		ambient.PodInbound: {ListenerFilters: []*listenerv3.ListenerFilter{filter}},
		ambient.PodTunnel: {FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{
			{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(t, tunnels)}},
		}}}},
	} {
		template.Name = kind
		own, err := proto.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		for what, templates := range map[string]map[string][]byte{"all pods'": nil, "the pod's own": {kind: own}} {
			m, err := podListener{templates: templates}.listener(template, "a/1")
			if err != nil {
				t.Fatal(err)
			}
			var src originalsrcv3.OriginalSrc
			var http hcmv3.HttpConnectionManager
			var httpSrc httpsrcv3.OriginalSrc
			for _, f := range m.ListenerFilters {
				unpack(t, f.GetTypedConfig(), &src)
			}
			for _, c := range m.FilterChains {
				unpack(t, c.Filters[0].GetTypedConfig(), &http)
				unpack(t, http.HttpFilters[0].GetTypedConfig(), &httpSrc)
			}
			if got := src.Mark | httpSrc.Mark; got != redirect.AmbientAppMark {
				t.Errorf("%s, %s template: marked %#x, want %#x", kind, what, got, redirect.AmbientAppMark)
			}
		}
	}
	if redirect.AmbientAppMark&0xfff != wire.ProxyMark { // else the rules of older releases, and those that let the proxy pass, do not know it
		t.Errorf("%#x is none of %#x's", redirect.AmbientAppMark, wire.ProxyMark)
	}
}

func unpack(t *testing.T, a *anypb.Any, m proto.Message) {
	t.Helper()
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
}

// TestTemplatesStayAsTheyAre: what is made for one pod is in no other's, is all of the template, also what this agent does not know, and costs no copy of
// the chains of what a pod sends.
func TestTemplatesStayAsTheyAre(t *testing.T) {
	at := func(address string) *corev3.Address {
		return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: address}}}
	}
	for _, name := range ambient.Templates {
		template := &listenerv3.Listener{
			Name: name, Address: at("0.0.0.0"), AdditionalAddresses: []*listenerv3.AdditionalAddress{{Address: at("::")}}, StatPrefix: "stat",
			Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"other": {}}},
		}
		for range 1000 {
			template.FilterChains = append(template.FilterChains, &listenerv3.FilterChain{Name: "chain", FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "tls"}})
		}
		template.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1))
		before := proto.CloneOf(template)
		for _, pod := range []string{"a/1", "b/1"} {
			network := "/n/" + pod
			made, err := podListener{values: map[string]string{ambient.Network: network}, ipv6: true}.listener(template, pod)
			if err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(before)
			want.Name = name + "/" + pod
			want.Address.GetSocketAddress().NetworkNamespaceFilepath = network
			want.AdditionalAddresses[0].Address.GetSocketAddress().NetworkNamespaceFilepath = network
			want.Metadata.FilterMetadata[ambient.MetadataKey] = &structpb.Struct{Fields: map[string]*structpb.Value{ambient.Network: structpb.NewStringValue(network)}}
			if !proto.Equal(made, want) {
				t.Errorf("%s: made %v", pod, made)
			}
			if !proto.Equal(template, before) {
				t.Fatalf("%s of %s changed the template", name, pod)
			}
		}
		if name != ambient.PodOutbound {
			continue
		}
		if n := testing.AllocsPerRun(10, func() {
			_, _ = podListener{values: map[string]string{ambient.Network: "/n/1"}}.listener(template, "a/1")
		}); n > 100 {
			t.Errorf("%.0f allocations for a listener of 1,000 chains", n)
		}
	}
}

// TestRefusedListenersComeAgain: of what Envoy refused all comes again, and of what it took nothing.
func TestRefusedListenersComeAgain(t *testing.T) {
	c := conversation{has: map[string]string{}, wait: againFirst}
	now := map[string]*opened{"a": {version: "1"}, "b": {version: "1"}}
	first := c.response(now)
	if len(first.Resources) != 2 {
		t.Fatalf("first: %v", first)
	}
	if why := c.heard(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: first.Nonce, ErrorDetail: &status.Status{Message: "no such network"}}); why == "" || c.again == nil {
		t.Errorf("refused with %q", why)
	}
	second := c.response(now)
	if len(second.Resources) != 2 {
		t.Errorf("what was refused came again as %v", second)
	}
	c.heard(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: second.Nonce})
	if third := c.response(now); third != nil {
		t.Errorf("what was taken came again: %v", third)
	}
	delete(now, "b")
	if gone := c.response(now); len(gone.GetRemovedResources()) != 1 {
		t.Errorf("what is gone: %v", gone)
	}
}

// TestWhoseListenersAreRefused: of what Envoy's message names, pods are told from others.
func TestWhoseListenersAreRefused(t *testing.T) {
	sent := []string{"ask", "pod-inbound/shop/cart-0", "pod-outbound/shop/cart-0", "pod-outbound/shop/web-0"}
	for message, want := range map[string]map[string]string{
		refusalsBegin + "pod-inbound/shop/cart-0: no network\npod-outbound/shop/cart-0: no network\n": {"shop/cart-0": "no network"},
		refusalsBegin + "pod-outbound/shop/web-0: x\nask: no cluster\n":                               nil,
		"something else": nil,
	} {
		if got := podsIn(sent, message); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", message, got, want)
		}
	}
	l := newListeners(slog.New(slog.DiscardHandler), t.TempDir())
	seen := l.changed
	l.settleBut(seen, sent, refusalsBegin+"pod-outbound/shop/web-0: x")
	if len(l.refusals()) != 1 || l.Taken() {
		t.Errorf("refused: %v", l.refusals())
	}
	l.replace(l.now)
	l.settleBut(seen, sent, refusalsBegin+"pod-outbound/shop/web-0: x")
	if len(l.refusals()) != 0 {
		t.Error("what Envoy said of something else before counts")
	}
}
