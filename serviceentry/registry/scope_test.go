package registry

import (
	"fmt"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// TestScope: a listener with a port governs that port alone, what is excluded is not seen, and what is bound elsewhere
// gives its hosts to nobody.
func TestScope(t *testing.T) {
	services := []*Service{
		{Traits: &Traits{}, Host: "a.com", Namespace: "app", Ports: []Port{{Number: 80}, {Number: 443}}},
		{Traits: &Traits{}, Host: "b.com", Namespace: "lib", Ports: []Port{{Number: 443}, {Number: 5432}}},
	}
	port := func(n uint32) *networking.SidecarPort { return &networking.SidecarPort{Number: n} }
	for name, c := range map[string]struct {
		egress []*networking.IstioEgressListener
		want   string
	}{
		"no listener":        {nil, "a.com:80 a.com:443 b.com:443 b.com:5432"},
		"everything":         {[]*networking.IstioEgressListener{{Hosts: []string{"*/*"}}}, "a.com:80 a.com:443 b.com:443 b.com:5432"},
		"own":                {[]*networking.IstioEgressListener{{Hosts: []string{"./*"}}}, "a.com:80 a.com:443"},
		"one port":           {[]*networking.IstioEgressListener{{Port: port(443), Hosts: []string{"*/*"}}}, "a.com:443 b.com:443"},
		"port and the rest":  {[]*networking.IstioEgressListener{{Port: port(443), Hosts: []string{"./*"}}, {Hosts: []string{"*/*"}}}, "a.com:80 a.com:443 b.com:5432"},
		"another port":       {[]*networking.IstioEgressListener{{Port: port(9000), Hosts: []string{"*/*"}}}, ""},
		"excluded namespace": {[]*networking.IstioEgressListener{{Hosts: []string{"*/*", "~lib/*"}}}, "a.com:80 a.com:443"},
		"excluded host":      {[]*networking.IstioEgressListener{{Hosts: []string{"*/*", "~/a.com"}}}, "b.com:443 b.com:5432"},
		"excluded by port":   {[]*networking.IstioEgressListener{{Port: port(443), Hosts: []string{"*/*", "~/a.com"}}, {Hosts: []string{"*/*"}}}, "a.com:80 b.com:443 b.com:5432"},
		"nothing":            {[]*networking.IstioEgressListener{{Hosts: []string{"~/*"}}}, ""},
		"bound":              {[]*networking.IstioEgressListener{{Port: port(443), Bind: "127.0.0.1", Hosts: []string{"*/*"}}}, ""},
		"bound, and rest":    {[]*networking.IstioEgressListener{{Port: port(443), Bind: "127.0.0.1", Hosts: []string{"lib/*"}}, {Hosts: []string{"./*"}}}, "a.com:80 a.com:443"},
		"not caught":         {[]*networking.IstioEgressListener{{Port: port(443), CaptureMode: networking.CaptureMode_NONE, Hosts: []string{"*/*"}}}, ""},
		"a socket":           {[]*networking.IstioEgressListener{{Port: port(0), Bind: "unix:///var/run/s", Hosts: []string{"*/*"}}}, ""},
	} {
		scope := fromSidecar(&config.Object{}, &networking.Sidecar{Egress: c.egress})
		var got []string
		hashes := map[uint64]bool{}
		for _, svc := range services {
			seen := scope.narrow("app", svc)
			if seen == nil {
				continue
			}
			hashes[seen.Hash] = len(seen.Ports) < len(svc.Ports)
			for _, p := range seen.Ports {
				got = append(got, fmt.Sprintf("%s:%d", seen.Host, p.Number))
			}
			if narrowed := hashes[0]; narrowed {
				t.Errorf("%s: a service with fewer ports has the hash of the whole", name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, " "), c.want)
		}
	}
	if p := fromSidecar(&config.Object{}, &networking.Sidecar{OutboundTrafficPolicy: &networking.OutboundTrafficPolicy{
		Mode: networking.OutboundTrafficPolicy_ALLOW_ANY, EgressProxy: &networking.Destination{Host: "proxy.com"},
	}}); p.AllowAny == nil || *p.AllowAny {
		t.Error("hosts that should go by a proxy go straight")
	}
}

// TestRuleForAll: a DestinationRule for "*" is for every host, after those that name it.
func TestRuleForAll(t *testing.T) {
	for host, want := range map[string][]string{
		"a.b.com": {"a.b.com", ".b.com", ".com", "*"},
		"web":     {"web", "*"},
		"*.b.com": {".b.com", ".com", "*"},
	} {
		var got []string
		for p := tailOf(host); p != ""; p = widerRule(p) {
			got = append(got, p)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}
