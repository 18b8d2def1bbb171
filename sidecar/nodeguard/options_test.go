package nodeguard

import (
	"strings"
	"testing"
)

func TestMistakesAreNamed(t *testing.T) {
	networks := func(text string) error { _, err := ParseNetworks([]string{text}); return err }
	exemption := func(text string) error { _, err := ParseExemption(text); return err }
	selectors := func(text string) error { _, err := ParseSelectors(text); return err }
	for _, c := range []struct {
		parse      func(string) error
		text, want string
	}{
		{networks, "10.0.0.0/8", ""},
		{networks, "10.0.0.1", ""},
		{networks, "fd00::/8", ""},
		{networks, "10.0.0.1/8", "did you mean 10.0.0.0/8?"},
		{networks, "0.0.0.0/0", "whole world"},
		{networks, "::/0", "whole world"},
		{networks, "::ffff:10.0.0.0/104", "IPv4 network"},
		{networks, "example.com", "no network"},
		{networks, "", "no network"},
		{exemption, "istio-system", ""},
		{exemption, "edge/app=gateway,tier in (a,b)", ""},
		{exemption, "app=gateway", "say NAMESPACE"},
		{exemption, "/app=gateway", "say NAMESPACE"},
		{exemption, "edge/", "no selector behind the slash"},
		{exemption, "edge/=", `"edge/="`},
		{selectors, DefaultSelectors, ""},
		{selectors, "a in (b, c); !d", ""},
		{selectors, "a in b", `"a in b"`},
	} {
		err := c.parse(c.text)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}
