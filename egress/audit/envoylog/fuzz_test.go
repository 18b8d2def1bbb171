package envoylog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// FuzzRecords: whatever message comes is read without a panic, what is said after "?" in a path is in no record, and
// each record says what was decided, by whom it was seen, and can be written down. What policies would do is said of what was allowed only.
func FuzzRecords(f *testing.F) {
	for _, c := range cases() {
		for _, m := range []*alsv3.StreamAccessLogsMessage{c.message, inOneTag(c.message)} {
			body, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(c.place), body)
		}
	}
	const secret = "fuzz-secret"
	f.Fuzz(func(t *testing.T, place string, body []byte) {
		m := &alsv3.StreamAccessLogsMessage{}
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, m) != nil { // groups are unknown, and not read
			return
		}
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			if r := e.GetRequest(); r != nil {
				r.Path += "?" + secret
				r.Authority = secret + "@" + r.Authority
			}
		}
		if !utf8.ValidString(place) {
			return // no name of a log
		}
		for _, r := range read(t, node, wire.Place(place), m) {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), secret) {
				t.Errorf("%s holds the query string or the password", text)
			}
			if r.Verdict == "" || r.Path == "" || r.Reporter == "" || r.Class == "" || r.Protocol == "" || r.Proxy != node.ID {
				t.Errorf("%s lacks something", text)
			}
			if r.Verdict != record.Allowed && (r.AllowedBy != record.Object{} || r.WouldDeny != record.Object{}) {
				t.Errorf("%s: it is denied already", text)
			}
		}
	})
}
