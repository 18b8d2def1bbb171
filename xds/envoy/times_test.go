package envoy

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

// TestTimesCanBeReadOff: agents find when rules begin and end in what holds them, as text (sidecar/tunnels).
func TestTimesCanBeReadOff(t *testing.T) {
	at := time.Date(2030, 12, 31, 1, 2, 3, 0, time.FixedZone("", 3600))
	for name, p := range map[string]*Predicate{"ends": TimeBefore(at), "begins": TimeNotBefore(at)} {
		body, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(body, []byte("2030-12-31T00:02:03Z")) {
			t.Errorf("when it %s cannot be read off: %q", name, body)
		}
	}
}
