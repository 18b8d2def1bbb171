package decode

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// TestShared: objects keep what they say, share what is alike, and no more is remembered than is agreed.
func TestShared(t *testing.T) {
	var a alike
	read := func(i int) *config.Object {
		return &config.Object{Key: config.Key{Kind: config.KindServiceEntry, Namespace: fmt.Sprintf("ns-%d", i%3000)}, Spec: &networking.ServiceEntry{Ports: []*networking.ServicePort{
			{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: uint32(443 + i%2500), TargetPort: uint32(i % 2), Name: "tls", Protocol: "TLS"},
		}}}
	}
	for i := range 10_000 {
		o, want := read(i), read(i)
		a.share(o)
		if o.Key != want.Key || !proto.Equal(o.Spec.(proto.Message), want.Spec.(proto.Message)) {
			t.Fatalf("%v of %v is %v of %v", want.Spec, want.Key, o.Spec, o.Key)
		}
		again := read(i)
		a.share(again)
		if &o.Spec.(*networking.ServiceEntry).Ports[0] != &again.Spec.(*networking.ServiceEntry).Ports[0] {
			t.Fatalf("ports of %v are not shared", want.Key)
		}
		if len(a.texts) > mostShared || len(a.ports) > mostShared {
			t.Fatalf("%d texts and %d lists are remembered", len(a.texts), len(a.ports))
		}
	}
	a.share(&config.Object{Spec: &networking.ServiceEntry{}})
	a.share(&config.Object{})
}
