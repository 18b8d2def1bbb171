package node

import (
	"errors"
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/original_src/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/xds/ambient"
)

// podListener is what a pod's listeners have that those of other pods have not.
type podListener struct {
	values    map[string]string // of their metadata
	templates map[string][]byte // that are the pod's alone
	addresses []netip.Addr      // of the pod, to which tunnels lead
	ipv6      bool              // the pod has it
	outbound  string            // the template of what it sends; "" for the one that all pods share
}

// template is the one that one of the pod's listeners is made from.
func (d podListener) template(kind string) string {
	if kind == ambient.PodOutbound && d.outbound != "" {
		return d.outbound
	}
	return kind
}

// nameIn is the name of a template's listener in one pod.
func nameIn(template, pod string) string { return template + "/" + pod }

// listener is a template's in a pod.
func (d podListener) listener(template *listenerv3.Listener, pod string) (*listenerv3.Listener, error) {
	kind := ambient.Template(template.Name)
	m, err := d.made(kind, template)
	if err != nil {
		return nil, err
	}
	m.Name = nameIn(kind, pod)
	inNetwork := func(a *corev3.Address) {
		if s := a.GetSocketAddress(); s != nil {
			s.NetworkNamespaceFilepath = d.values[ambient.Network]
		}
	}
	inNetwork(m.Address)
	if !d.ipv6 {
		m.AdditionalAddresses = nil // Envoy would refuse all of the listener
	}
	for _, a := range m.AdditionalAddresses {
		inNetwork(a.Address)
	}
	if kind != ambient.PodOutbound { // nothing of that is about the pod but what its metadata say
		if err := markApart(m.ListenerFilters); err != nil {
			return nil, err
		}
		for _, c := range m.FilterChains {
			if err := d.chain(c); err != nil {
				return nil, err
			}
		}
	}
	own := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range d.values {
		own.Fields[k] = structpb.NewStringValue(v)
	}
	if m.Metadata == nil {
		m.Metadata = &corev3.Metadata{}
	}
	if m.Metadata.FilterMetadata == nil {
		m.Metadata.FilterMetadata = map[string]*structpb.Struct{}
	}
	m.Metadata.FilterMetadata[ambient.MetadataKey] = own
	return m, nil
}

// made is a template's listener before anything of it is the pod's. What a pod sends is the largest of them, and nothing is changed in its chains: it has
// the template's own. Copies of those would be most of what adding a pod costs the agent.
func (d podListener) made(kind string, template *listenerv3.Listener) (*listenerv3.Listener, error) {
	own, is := d.templates[kind]
	switch {
	case is:
		m := &listenerv3.Listener{}
		err := proto.Unmarshal(own, m)
		m.AdditionalAddresses = addressesOf(template)
		return m, err
	case kind != ambient.PodOutbound:
		return proto.CloneOf(template), nil
	}
	m := &listenerv3.Listener{}
	template.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch f.Name() {
		case "address", "additional_addresses", "metadata":
		default:
			m.ProtoReflect().Set(f, v)
		}
		return true
	})
	m.ProtoReflect().SetUnknown(template.ProtoReflect().GetUnknown()) // of a newer controller
	m.Address, m.AdditionalAddresses, m.Metadata = proto.CloneOf(template.Address), addressesOf(template), proto.CloneOf(template.Metadata)
	return m, nil
}

// addressesOf are a listener's additional addresses, to be changed.
func addressesOf(l *listenerv3.Listener) (out []*listenerv3.AdditionalAddress) {
	for _, a := range l.AdditionalAddresses {
		out = append(out, proto.CloneOf(a))
	}
	return out
}

// chain has TLS that ends there show the pod's certificate, and tunnels lead to the pod's addresses.
func (d podListener) chain(c *listenerv3.FilterChain) error {
	if config := c.GetTransportSocket().GetTypedConfig(); config != nil {
		var tls tlsv3.DownstreamTlsContext
		if err := edit(config, &tls, func() {
			for _, s := range tls.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
				s.Name = d.values[ambient.Identity] // a pod has no others
			}
		}); err != nil {
			return err
		}
	}
	for _, f := range c.Filters {
		var m hcmv3.HttpConnectionManager
		if !f.GetTypedConfig().MessageIs(&m) {
			continue
		}
		var failed error
		if err := edit(f.GetTypedConfig(), &m, func() {
			for _, host := range m.GetRouteConfig().GetVirtualHosts() {
				if host.Name == ambient.OwnAddresses {
					host.Domains = d.domains()
				}
			}
			failed = markApart(m.HttpFilters)
		}); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
	return nil
}

// markApart has connections to the app that take their clients' addresses marked as the rules in the pod know them: what comes to a listener, and what comes by
// tunnels, for which HTTP has a filter of its own.
func markApart[F interface{ GetTypedConfig() *anypb.Any }](filters []F) error {
	for _, f := range filters {
		var src originalsrcv3.OriginalSrc
		var http httpsrcv3.OriginalSrc
		var err error
		switch packed := f.GetTypedConfig(); {
		case packed.MessageIs(&src):
			err = edit(packed, &src, func() { src.Mark = redirect.AmbientAppMark })
		case packed.MessageIs(&http):
			err = edit(packed, &http, func() { http.Mark = redirect.AmbientAppMark })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// domains are the pod's addresses with any port. Without any, nothing matches.
func (d podListener) domains() []string {
	out := []string{"none.invalid"}
	for _, a := range d.addresses {
		if a.Is4() {
			out = append(out, a.String()+":*")
		} else {
			out = append(out, "["+a.String()+"]:*")
		}
	}
	return out
}

// edit changes what is packed.
func edit(packed *anypb.Any, m proto.Message, change func()) error {
	if err := packed.UnmarshalTo(m); err != nil {
		return fmt.Errorf("%s: %w", packed.TypeUrl, err)
	}
	change()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	packed.Value = body
	return err
}
