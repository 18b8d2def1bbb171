package name

import (
	"bytes"
	"net/netip"
	"reflect"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/dnsproxy/name/namepb"
)

// generated is a name as generated code has it.
func generated(n Name) *namepb.Name {
	m := &namepb.Name{Host: n.Host, Ttl: n.TTL, Aliases: n.Aliases, Namespace: n.Namespace}
	for _, a := range n.Addresses {
		m.Addresses = append(m.Addresses, a.String())
	}
	if r := n.Defaults; r != nil {
		m.Defaults = &namepb.Defaults{
			Refuse: r.Refuse, Local: r.Local, DecidedBy: r.DecidedBy, Rate: r.Rate, OddRate: r.OddRate,
			Upstreams: r.Upstreams, AllowPrivate: r.AllowPrivate, KeepEch: r.KeepECH, DenyUnrecorded: r.DenyUnrecorded, Never: r.Never,
		}
		for _, f := range r.Forward {
			m.Defaults.Forward = append(m.Defaults.Forward, &namepb.Forward{Domain: f.Domain, Upstreams: f.Upstreams})
		}
	}
	return m
}

// fromGenerated is the other way.
func fromGenerated(m *namepb.Name) (n Name, err error) {
	n = Name{Host: m.GetHost(), TTL: m.GetTtl(), Aliases: m.GetAliases(), Namespace: m.GetNamespace()}
	for _, text := range m.GetAddresses() {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return n, err
		}
		n.Addresses = append(n.Addresses, a)
	}
	return n, n.Validate()
}

func several() []Name {
	rest := full()
	rest.Never = []string{"never.test"}
	return []Name{
		{Host: "external.com"},
		{Host: "*.example.com", TTL: 60, Addresses: []netip.Addr{netip.MustParseAddr("240.240.0.1"), netip.MustParseAddr("2001:2::1")}, Aliases: []string{"a.b", "a.b.svc"}},
		{Host: "private.test", Namespace: "shop", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		{Host: Everything, Defaults: &Defaults{}},
		{Host: Everything, Defaults: rest},
	}
}

// TestWireIsTheProtos: what is read and written by hand is what name.proto says.
func TestWireIsTheProtos(t *testing.T) {
	for _, n := range several() {
		var m namepb.Name
		if err := proto.Unmarshal(n.Marshal(), &m); err != nil || len(m.ProtoReflect().GetUnknown())+len(m.GetDefaults().ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("%+v: %v, unknown %x", n, err, m.ProtoReflect().GetUnknown())
		}
		if !proto.Equal(&m, generated(n)) {
			t.Errorf("%+v is read as %v", n, &m)
		}
		b, err := proto.Marshal(generated(n))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Unmarshal(b); err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("%+v is written as %+v, %v", n, got, err)
		}
		if n.Defaults == nil && !bytes.Equal(b, n.Marshal()) {
			t.Errorf("%+v has other bytes", n)
		}
	}
	if fields := (&namepb.Defaults{}).ProtoReflect().Descriptor().Fields(); fields.Len() != len(defaultsFields) {
		t.Errorf("name.proto has %d fields of Defaults, %d are read", fields.Len(), len(defaultsFields))
	}
}

// BenchmarkDecode reads a table of 1,000 hosts, as an agent does when it starts: by hand, and by generated code.
func BenchmarkDecode(b *testing.B) {
	var table [][]byte
	for i := range 1000 {
		n := several()[1]
		n.Host = "host-" + strconv.Itoa(i) + ".example.com"
		table = append(table, n.Marshal())
	}
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, raw := range table {
				if _, err := Unmarshal(raw); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, raw := range table {
				var m namepb.Name
				if err := proto.Unmarshal(raw, &m); err != nil {
					b.Fatal(err)
				}
				if _, err := fromGenerated(&m); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkEncode writes them, as the control plane does.
func BenchmarkEncode(b *testing.B) {
	n := several()[1]
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = n.Marshal()
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (proto.MarshalOptions{Deterministic: true}).Marshal(generated(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
