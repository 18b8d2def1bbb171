package name

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestRoundTrip(t *testing.T) {
	for _, n := range []Name{
		{Host: "external.com"},
		{Host: "*.example.com", Addresses: []netip.Addr{netip.MustParseAddr("240.240.0.1"), netip.MustParseAddr("2001:2::1")}},
		{Host: "a.b.svc.cluster.local", TTL: 30, Aliases: []string{"a.b", "a.b.svc"}},
		{Host: "private.test", Namespace: "shop"},
		{Host: Everything, Defaults: &Defaults{}},
		{Host: Everything, Defaults: full()},
	} {
		got, err := Unmarshal(n.Marshal())
		if err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("Unmarshal(Marshal(%+v)) = %+v, %v", n, got, err)
		}
	}
}

func full() *Defaults {
	return &Defaults{
		Refuse: true, Local: []string{"cluster.local", "corp"}, DecidedBy: "Sidecar/default/narrow", Rate: 100, OddRate: 0.5,
		Upstreams: []string{"10.0.0.10:53", "tls://192.0.2.1:853#dns.example"}, AllowPrivate: []string{"*.corp.example", "10.1.0.0/16"}, KeepECH: true, DenyUnrecorded: true,
		Forward: []Forward{{Domain: "corp.example", Upstreams: []string{"10.0.0.53:53", "10.0.0.54:53"}}},
	}
}

func TestUnmarshalSkipsUnknownFields(t *testing.T) {
	b := protowire.AppendTag(Name{Host: "external.com"}.Marshal(), 99, protowire.BytesType)
	b = protowire.AppendString(b, "from the future")
	if got, err := Unmarshal(b); err != nil || got.Host != "external.com" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	text := func(field protowire.Number, s string) []byte { return appendString(nil, field, s) }
	for _, c := range []struct {
		name, want string
		in         []byte
	}{
		{"nothing", "host: is empty", nil},
		{"cut short", "unexpected EOF", text(1, "external.com")[:5]},
		{"a bad address", `addresses[0] "10.0.0"`, append(text(1, "x.test"), text(2, "10.0.0")...)},
		{"a zone", `addresses[0]`, append(text(1, "x.test"), text(2, "fe80::1%eth0")...)},
		{"an inner star", "character '*'", text(1, "a.*.test")},
		{"a lone star", "character '*'", text(1, "*")},
		{"a long label", "label of 64", text(1, strings.Repeat("a", 64)+".test")},
		{"a long name", "253 is the most", text(1, strings.Repeat("a.", 130)+"test")},
		{"a backslash", `character '\\'`, text(1, `a\.b.test`)},
		{"an empty alias", "aliases[0]", append(text(1, "x.test"), text(4, "")...)},
		{"a number as host", "wire type 0", []byte{1 << 3, 7}},
		{"defaults of one host", `only "*"`, Name{Host: "x.test", Defaults: &Defaults{}}.Marshal()},
		{"a path as namespace", "must be the name of one", Name{Host: "x.test", Namespace: "a/b"}.Marshal()},
		{"defaults of a namespace", `only "*"`, Name{Host: Everything, Namespace: "shop", Defaults: &Defaults{}}.Marshal()},
		{"defaults with addresses", `only "*"`, Name{Host: Everything, Addresses: []netip.Addr{netip.IPv6Loopback()}, Defaults: &Defaults{}}.Marshal()},
		{"a pattern as local", "local[0]", Name{Host: Everything, Defaults: &Defaults{Local: []string{"*.test"}}}.Marshal()},
		{"a negative rate", "rate -1", Name{Host: Everything, Defaults: &Defaults{OddRate: -1}}.Marshal()},
		{"forward to nobody", "names no resolver", Name{Host: Everything, Defaults: &Defaults{Forward: []Forward{{Domain: "x.test"}}}}.Marshal()},
		{"defaults cut short", "defaults", append(text(1, "*"), 5<<3|2, 1, 0x0a)},
		{"defaults of another type", "wire type 0", []byte{5 << 3, 7}},
	} {
		if _, err := Unmarshal(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(Name{Host: "external.com", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, TTL: 5, Aliases: []string{"e"}}.Marshal())
	f.Add(Name{Host: Everything, Defaults: full()}.Marshal())
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Unmarshal(b)
		if err != nil {
			return
		}
		first := n.Marshal()
		again, err := Unmarshal(first)
		if err != nil || !bytes.Equal(again.Marshal(), first) {
			t.Fatalf("%+v did not survive: %+v, %v", n, again, err)
		}
	})
}
