package envoylog_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestDecidedInOneTag: an entry that says in one tag what decided gives the record, and what is told of the connection, that it gives with a tag for each: whatever the values are, and
// where some are missing.
func TestDecidedInOneTag(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same in each run
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) {
			readsTheSame(t, c.place, c.message)
			for range 40 {
				m := proto.Clone(c.message).(*alsv3.StreamAccessLogsMessage)
				for _, common := range commons(m) {
					for _, tag := range wire.DecidedTags {
						delete(common.CustomTags, tag)
						if value := odd(random); value != "" { // as Envoy does
							common.CustomTags[tag] = value
						}
					}
				}
				readsTheSame(t, c.place, m)
			}
		})
	}
}

// odd is a value as the control plane may write one, or of another kind.
func odd(random *rand.Rand) string {
	of := []string{
		"", "-", "--", "/", "//", entryTag, policyTag, revisionTag, "-" + revisionTag, revisionTag + revisionTag, "VirtualService/a/b", "ServiceEntry/a", "a b", "%", "a=b,c", "\x00\n\x1f", "ü\u2028",
		wire.RoleGateway, wire.RoleInner, wire.RolePassthrough, wire.RoleBlackhole, wire.RoleMesh, wire.RoleWaypoint, wire.InDecided("A|B/|/c|"), wire.InDecided("|"),
	}
	return of[random.IntN(len(of))]
}

// readsTheSame holds the two forms of a message against each other.
func readsTheSame(t *testing.T, place wire.Place, apart *alsv3.StreamAccessLogsMessage) {
	t.Helper()
	one := inOneTag(apart)
	records, begun := readAll(t, place, apart)
	recordsOfOne, begunOfOne := readAll(t, place, one)
	if !reflect.DeepEqual(records, recordsOfOne) {
		t.Errorf("%v\nreads otherwise than\n%v\n%s", one, apart, cmp.Diff(records, recordsOfOne))
	}
	if !slices.Equal(begun, begunOfOne) {
		t.Errorf("of %v\nother tunnels are told of than of\n%v\n%+v\n%+v", one, apart, begunOfOne, begun)
	}
}

func readAll(t *testing.T, place wire.Place, m *alsv3.StreamAccessLogsMessage) ([]record.Record, []envoylog.Tunnel) {
	t.Helper()
	m = proto.Clone(m).(*alsv3.StreamAccessLogsMessage)
	m.Identifier = &alsv3.StreamAccessLogsMessage_Identifier{LogName: string(place)}
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := envoylog.NewReader(node)
	records, err := r.Records(string(body))
	if err != nil {
		t.Fatal(err)
	}
	return records, r.Begun()
}

// inOneTag is a message as Envoy sends it where it was told to say in one tag what decided.
func inOneTag(m *alsv3.StreamAccessLogsMessage) *alsv3.StreamAccessLogsMessage {
	m = proto.Clone(m).(*alsv3.StreamAccessLogsMessage)
	for _, c := range commons(m) {
		var values [len(wire.DecidedTags)]string
		for i, tag := range wire.DecidedTags {
			values[i] = c.CustomTags[tag]
			delete(c.CustomTags, tag)
		}
		c.CustomTags[wire.TagDecided] = wire.JoinDecided(values)
	}
	return m
}

// commons are what the entries of a message have in common.
func commons(m *alsv3.StreamAccessLogsMessage) (out []*datav3.AccessLogCommon) {
	for _, e := range m.GetHttpLogs().GetLogEntry() {
		out = append(out, e.CommonProperties)
	}
	for _, e := range m.GetTcpLogs().GetLogEntry() {
		out = append(out, e.CommonProperties)
	}
	return out
}
