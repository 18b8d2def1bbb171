package dnsproxy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
)

// TestUpstreamsChange: what is set while the server runs comes before what the machine says, and goes again.
func TestUpstreamsChange(t *testing.T) {
	own := startAuthority(t, "a.test. 60 IN A 192.0.2.1", "a.corp.test. 60 IN A 192.0.2.1")
	set := startAuthority(t, "a.test. 60 IN A 192.0.2.2", "a.corp.test. 60 IN A 192.0.2.2")
	corp := startAuthority(t, "a.corp.test. 60 IN A 192.0.2.3")
	var denied decided
	s := serve(t, Config{Upstreams: []string{own.addr}, OnDeny: denied.note})
	answers := func(when, host, want string) {
		t.Helper()
		s.Flush()
		if got := show(ask(t, s, "resolver", host, dns.TypeA)); got != "NOERROR | A 60 "+want {
			t.Errorf("%s: %s is %s, want %s", when, host, got, want)
		}
	}
	change := func(upstreams []string, forward map[string][]string) {
		t.Helper()
		if err := s.SetUpstreams(upstreams, forward); err != nil {
			t.Fatal(err)
		}
	}
	answers("at first", "a.test", "192.0.2.1")
	for range 2 { // a domain may come back
		change([]string{set.addr}, map[string][]string{"corp.test": {corp.addr}})
		answers("set", "a.test", "192.0.2.2")
		answers("set", "a.corp.test", "192.0.2.3")
		change([]string{set.addr}, nil)
		answers("without the domain", "a.corp.test", "192.0.2.2")
	}
	for _, bad := range []struct {
		upstreams []string
		forward   map[string][]string
	}{
		{[]string{"nobody"}, nil}, {nil, map[string][]string{"corp.test": nil}}, {nil, map[string][]string{"a..b": {corp.addr}}},
		{nil, map[string][]string{"corp.test": {"nobody"}}},
	} {
		if s.SetUpstreams(bad.upstreams, bad.forward) == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	answers("after what is no good", "a.test", "192.0.2.2")
	change(nil, nil)
	answers("taken back", "a.test", "192.0.2.1")
	answers("taken back", "a.corp.test", "192.0.2.1")
	if err := s.SetPolicy("resolver", Policy{RefuseUnregistered: true}); err != nil {
		t.Fatal(err)
	}
	ask(t, s, "resolver", "a.test", dns.TypeA)
	denied.mu.Lock()
	defer denied.mu.Unlock()
	if len(denied.all) != 1 || denied.all[0].Reason != reasonUnregistered {
		t.Errorf("denials: %+v", denied.all)
	}
}

// TestResolvConfWaits: while others are set, a resolv.conf that changes is only noted.
func TestResolvConfWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{ResolvConf: file})
	if err := s.SetUpstreams([]string{"192.0.2.1"}, nil); err != nil {
		t.Fatal(err)
	}
	s.useResolvConf([]byte("nameserver 192.0.2.9\n"))
	if got := s.routes.base.Servers(); len(got) != 1 || got[0].Addr.String() != "192.0.2.1:53" {
		t.Errorf("asked: %v", got)
	}
	if err := s.SetUpstreams(nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.routes.base.Servers(); len(got) != 1 || got[0].Addr.String() != "192.0.2.9:53" {
		t.Errorf("asked after that: %v", got)
	}
}
