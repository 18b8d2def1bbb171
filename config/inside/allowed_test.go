package inside

import (
	"net/netip"
	"testing"
)

func TestRefusedUnlessAllowed(t *testing.T) {
	for _, c := range []struct {
		allow []string
		host  string
		addr  string
		want  bool
	}{
		{nil, "external.com", "203.0.113.10", false},
		{nil, "external.com", "10.0.0.1", true},
		{nil, "external.com", "127.0.0.1", true},
		{nil, "external.com", "169.254.169.254", true},
		{nil, "external.com", "::ffff:10.0.0.1", true},
		{nil, "external.com", "fd00:ec2::254", true},
		{[]string{"*"}, "external.com", "10.0.0.1", false},
		{[]string{"DB.corp.example."}, "db.corp.example", "10.0.0.1", false},
		{[]string{"db.corp.example"}, "a.db.corp.example", "10.0.0.1", true},
		{[]string{"*.corp.example"}, "a.b.corp.example", "10.0.0.1", false},
		{[]string{"*.corp.example"}, "corp.example", "10.0.0.1", true},
		{[]string{"*.corp.example"}, "evilcorp.example", "10.0.0.1", true},
		{[]string{"*.corp.example"}, ".corp.example", "10.0.0.1", true},
		{[]string{"127.0.0.0/8", "::1"}, "external.com", "127.1.2.3", false},
		{[]string{"127.0.0.0/8", "::1"}, "external.com", "::1", false},
		{[]string{"127.0.0.0/8", "::1"}, "external.com", "::ffff:127.0.0.1", false},
		{[]string{"127.0.0.0/8", "::1"}, "external.com", "169.254.169.254", true},
		{[]string{"127.0.0.0/8"}, "external.com", "10.0.0.1", true},
	} {
		p, err := Parse(c.allow)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Refuses(c.host, netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("with %v, %s at %s: refused is %v", c.allow, c.host, c.addr, got)
		}
	}
}

func TestWrongPatterns(t *testing.T) {
	for _, bad := range []string{"", "*.*.com", "a..b", "*corp.example", "corp.example:443", "10.0.0.0/33", "a/b", "http://corp.example"} {
		if _, err := Parse([]string{bad}); err == nil {
			t.Errorf("%q: is taken", bad)
		}
	}
}
