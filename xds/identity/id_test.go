package identity

import (
	"crypto/x509"
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	id, err := ParseID("spiffe://cluster.local/ns/shop/sa/check.out-1")
	if err != nil {
		t.Fatal(err)
	}
	if want := (ID{"cluster.local", "shop", "check.out-1"}); id != want {
		t.Errorf("ParseID = %+v, want %+v", id, want)
	}
	if id.URI().String() != id.String() {
		t.Errorf("URI %s differs from String %s", id.URI(), id)
	}
}

func TestParseIDRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"empty":                   "",
		"other scheme":            "https://cluster.local/ns/shop/sa/checkout",
		"upper-case scheme":       "SPIFFE://cluster.local/ns/shop/sa/checkout",
		"no trust domain":         "spiffe:///ns/shop/sa/checkout",
		"upper-case trust domain": "spiffe://Cluster.local/ns/shop/sa/checkout",
		"port":                    "spiffe://cluster.local:80/ns/shop/sa/checkout",
		"user":                    "spiffe://a@cluster.local/ns/shop/sa/checkout",
		"long trust domain":       "spiffe://" + strings.Repeat("a", 256) + "/ns/shop/sa/checkout",
		"no path":                 "spiffe://cluster.local",
		"other path":              "spiffe://cluster.local/workload/checkout",
		"swapped":                 "spiffe://cluster.local/sa/checkout/ns/shop",
		"too short":               "spiffe://cluster.local/ns/shop/sa",
		"too long":                "spiffe://cluster.local/ns/shop/sa/checkout/x",
		"trailing slash":          "spiffe://cluster.local/ns/shop/sa/checkout/",
		"double slash":            "spiffe://cluster.local//ns/shop/sa/checkout",
		"empty namespace":         "spiffe://cluster.local/ns//sa/checkout",
		"empty account":           "spiffe://cluster.local/ns/shop/sa/",
		"upper-case namespace":    "spiffe://cluster.local/ns/Shop/sa/checkout",
		"dots in namespace":       "spiffe://cluster.local/ns/a.b/sa/checkout",
		"parent":                  "spiffe://cluster.local/ns/../sa/checkout",
		"escape":                  "spiffe://cluster.local/ns/sh%6fp/sa/checkout",
		"query":                   "spiffe://cluster.local/ns/shop/sa/checkout?x=1",
		"fragment":                "spiffe://cluster.local/ns/shop/sa/checkout#x",
		"space":                   "spiffe://cluster.local/ns/shop/sa/check out",
		"newline":                 "spiffe://cluster.local/ns/shop/sa/checkout\n",
		"nul":                     "spiffe://cluster.local/ns/shop/sa/checkout\x00",
		"wildcard":                "spiffe://cluster.local/ns/*/sa/checkout",
		"huge":                    "spiffe://cluster.local/ns/shop/sa/" + strings.Repeat("a", maxIDLength),
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := ParseID(s); err == nil {
				t.Errorf("ParseID(%q) = %+v, want an error", s, id)
			}
		})
	}
}

// FuzzParseID holds that what is parsed prints as it was written, and survives the way through a URI name.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{
		"spiffe://cluster.local/ns/shop/sa/checkout", "spiffe://td/ns/a/sa/b.c", "spiffe://td/ns/a%2f/sa/b", "spiffe:///ns//sa/", "x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			return
		}
		if id.String() != s {
			t.Fatalf("ParseID(%q).String() = %q", s, id)
		}
		if id.URI().String() != s {
			t.Fatalf("ParseID(%q).URI() = %q", s, id.URI())
		}
		if err := id.Validate(); err != nil {
			t.Fatalf("ParseID(%q) is not valid: %v", s, err)
		}
	})
}

// FuzzCertificateLeaf holds that no certificate, however odd, panics or proves an identity outside the trust domain.
func FuzzCertificateLeaf(f *testing.F) {
	f.Add([]byte("nothing"))
	f.Fuzz(func(t *testing.T, der []byte) {
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		id, err := Certificate{TrustDomain: "cluster.local"}.fromLeaf(leaf, leaf.NotBefore)
		if err == nil && id.TrustDomain != "cluster.local" {
			t.Fatalf("identity %s", id)
		}
	})
}
