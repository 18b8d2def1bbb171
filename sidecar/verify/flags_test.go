package verify

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func read(t *testing.T, args ...string) *Flags {
	t.Helper()
	fs := pflag.NewFlagSet("verify", pflag.ContinueOnError)
	f := Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestArgs: what is written for another program means the same there.
func TestArgs(t *testing.T) {
	given := read(t, "--target", "a.test,b.test", "--target-ip", "203.0.113.5", "--target-ip", "2001:db8::5", "--resolver", "192.0.2.1", "--resolver", "192.0.2.2:5353",
		"--doh", "https://dns.test/dns-query", "--tunnel", "t.test", "--port", "25", "--registered", "c.test", "--gateway", "gw:443", "--pod", "10.0.0.9",
		"--only", "name", "--skip", "icmp", "--wait", "2s", "--http-port", "8080", "--https-port", "8443")
	if again := read(t, given.Args()...); !reflect.DeepEqual(given, again) {
		t.Errorf("%+v became %+v", given, again)
	}
	e, err := given.Env()
	if err != nil || len(e.Hosts) != 2 || len(e.family(true)) != 1 || e.Resolvers[0].Port() != 53 || e.Resolvers[1].Port() != 5353 || e.ports.HTTPS != 8443 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, wrong := range []string{
		"--target=1.2.3.4", "--target=https://a.test", "--target-ip=a.test", "--target-ip=0.0.0.0", "--resolver=dns.test", "--doh=http://a.test", "--port=0",
		"--port=http", "--gateway=a.test", "--pod=web", "--wait=0s", "--wait=1h",
	} {
		_, err := read(t, wrong).Env()
		flag, _, _ := strings.Cut(wrong, "=")
		if err == nil || !strings.HasPrefix(err.Error(), flag+" ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestChoose(t *testing.T) {
	ways, err := Choose([]string{"name", "icmp"}, []string{"icmp"})
	if err != nil || len(ways) != 1 || ways[0].Name != "name" {
		t.Errorf("%v, %v", names(ways), err)
	}
	if all, err := Choose(nil, nil); err != nil || len(all) != len(All) {
		t.Errorf("%v, %v", names(all), err)
	}
	if _, err := Choose(nil, []string{"telepathy"}); err == nil || !strings.Contains(err.Error(), "dns-tunnel") {
		t.Errorf("%v", err)
	}
}
