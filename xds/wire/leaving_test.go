package wire_test

import (
	"testing"

	"github.com/sallyport/sallyport/xds/wire"
)

func TestLeaving(t *testing.T) {
	for _, want := range []wire.Leaving{
		{Local: "127.0.0.1:15001", Client: "10.0.0.7:40000", Kind: "tls", To: "240.240.0.9:443", Table: "decide-443"},
		{Local: "[::1]:15001", Client: "[fd00::7]:40000", Kind: "tcp", To: "[2001:2::9]:9000", Table: "decide-9000", Range: "range.test:9000", In: "shop"},
	} {
		got, local, client, is := wire.ParseLeaving(want.Tag())
		if !is || got != want || local.String() != want.Local || client.String() != want.Client {
			t.Errorf("%q is read as %+v, of %s and %s (%t)", want.Tag(), got, local, client, is)
		}
	}
	for _, odd := range []string{"", "-", "10.0.0.20:8443 shop~203.0.113.7:443", "- 10.0.0.7:40000 tls - decide-443 - -", "127.0.0.1:15001 - tls - decide-443 - -", "127.0.0.1:15001 10.0.0.7:40000 tls - decide-443 - - -"} {
		if got, _, _, is := wire.ParseLeaving(odd); is {
			t.Errorf("%q is read as %+v", odd, got)
		}
	}
}
