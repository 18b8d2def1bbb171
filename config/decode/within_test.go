package decode

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
)

// TestWithin: of what is too much in all, or not to be taken, nothing is left.
func TestWithin(t *testing.T) {
	entry := func(n int) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e%d, namespace: shop}\nspec: {hosts: [a%d.test], ports: [{number: 80, name: http, protocol: HTTP}]}\n", n, n)
	}
	// Each document comes to some 300 KiB when it is written out.
	grows := entry(0) + "x: &x " + strings.Repeat("y", 3_000) + "\nz: [" + strings.Repeat("*x,", 100) + "]\n"
	refusal := errors.New("not yours")
	for name, tt := range map[string]struct {
		text   string
		bounds Bounds
		want   string
	}{
		"few":        {entry(1) + "---\n" + entry(2), Bounds{Bytes: 10_000, Objects: 2}, ""},
		"many":       {entry(1) + "---\n" + entry(2) + "---\n" + entry(3), Bounds{Objects: 2}, "more than 2 objects"},
		"many items": {"apiVersion: v1\nkind: List\nitems: [" + strings.Repeat("{},", 600) + "]\n", Bounds{Objects: 500}, "more than 500 objects"},
		"aliases":    {strings.Repeat(grows+"---\n", 4), Bounds{Bytes: 1 << 20}, "more than 1048576 bytes"},
		"not theirs": {entry(1) + "---\n" + strings.Replace(entry(2), "hosts", "unknown", 1), Bounds{Take: func(k config.Key) error {
			if k.Name == "e2" {
				return refusal
			}
			return nil
		}}, "not yours"},
	} {
		r := Within("pasted.yaml", []byte(tt.text), tt.bounds)
		switch {
		case tt.want == "" && (r.Refused != nil || len(r.Objects) != 2):
			t.Errorf("%s: %v, %d objects", name, r.Refused, len(r.Objects))
		case tt.want != "" && (r.Refused == nil || !strings.Contains(r.Refused.Error(), tt.want) || len(r.Objects) > 0 || len(r.Findings) > 500):
			t.Errorf("%s: %v, %d objects, %d findings", name, r.Refused, len(r.Objects), len(r.Findings))
		}
	}
}
