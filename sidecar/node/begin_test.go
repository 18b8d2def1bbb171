package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/xds/ambient"
)

// noCertificates has none to give.
type noCertificates struct{ dropped int }

func (*noCertificates) Keep(string) (<-chan struct{}, error) { return nil, errors.New("no roots") }
func (c *noCertificates) Drop(string)                        { c.dropped++ }

// TestClosedWithoutCertificate: a pod that cannot be had a certificate for has its rules all the same, so that nothing of it leaves.
func TestClosedWithoutCertificate(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes a network namespace")
	}
	name := fmt.Sprintf("spnode%d", os.Getpid())
	ip := func(args ...string) string {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	ip("netns", "add", name)
	t.Cleanup(func() { ip("netns", "del", name) })
	ip("-n", name, "link", "set", "lo", "up")

	none := &noCertificates{}
	p, err := New(Config{Log: slog.New(slog.DiscardHandler), Folder: t.TempDir(), Certificates: none})
	if err != nil {
		t.Fatal(err)
	}
	l := Local{Namespace: "shop", Name: "cart-0", UID: "u1", Network: "/run/netns/" + name}
	r := ambient.Pod{In: true, Namespace: "shop", Name: "cart-0", UID: "u1", Identity: "spiffe://x"}
	p.local[l.Key()], p.remote[l.Key()] = l, r
	p.holder = holder{may: true, has: true, holds: true}
	s := &served{local: l, remote: r}
	if err := p.begin(t.Context(), s); err == nil || !strings.Contains(err.Error(), "certificate: no roots") || s.opened {
		t.Errorf("it is taken in, or the reason is another one: %v", err)
	}
	if none.dropped != 0 {
		t.Error("a certificate is given back that nobody had")
	}
	if rules := ip("netns", "exec", name, "iptables-save"); !strings.Contains(rules, "REDIRECT") && !strings.Contains(rules, "TPROXY") {
		t.Errorf("nothing keeps its traffic:\n%s", rules)
	}
}
