package envoylog

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// Reader reads the messages of one stream of the access log service.
type Reader struct {
	node    Node
	place   wire.Place
	records []record.Record
	begun   []Tunnel
	spoke   []netip.AddrPort
	cut     []Broken
}

// NewReader reads what a node's Envoy sends.
func NewReader(n Node) *Reader { return &Reader{node: n} }

// Records reads a message, a StreamAccessLogsMessage in protobuf's wire format. The first one of a stream names the log, which is the place that
// all of its entries come from. The records are good until the next call; their texts are parts of the message. The error is of a
// message that is none: what came before the fault is in the records.
func (r *Reader) Records(message string) ([]record.Record, error) {
	r.records, r.begun, r.spoke, r.cut = r.records[:0], r.begun[:0], r.spoke[:0], r.cut[:0]
	f := protobuf.Scan(message)
	for f.Next() {
		var err error
		switch f.Tag {
		case messageIdentifier:
			err = r.identify(f.Text)
		case messageHTTPLogs:
			err = r.requests(f.Text)
		case messageTCPLogs:
			err = r.connections(f.Text)
		}
		if err != nil {
			return r.records, err
		}
	}
	return r.records, malformed("message", f.Err())
}

// identify reads an Identifier. The node in it, some 60 KB, says nothing that the agent does not know.
func (r *Reader) identify(identifier string) error {
	f := protobuf.Scan(identifier)
	for f.Next() {
		if f.Tag == identifierLogName {
			r.place = wire.Place(strings.Clone(f.Text)) // it is needed for longer than the message is there
		}
	}
	return malformed("identifier", f.Err())
}

// requests makes records of the entries of HTTP connection managers.
func (r *Reader) requests(list string) error {
	f := protobuf.Scan(list)
	for f.Next() {
		if f.Tag != entriesLogEntry {
			continue
		}
		var l logged
		if err := l.readHTTP(f.Text); err != nil {
			return malformed("entry", err)
		}
		r.speaks(&l)
		if l.begins {
			r.upgrade(&l)
		}
		if l.begins || l.intermediate {
			continue
		}
		r.cuts(&l)
		if into := r.next(); !r.request(&l, into) {
			r.records = r.records[:len(r.records)-1]
		}
	}
	return malformed("entries", f.Err())
}

// Spoke are the clients, as they are connected, of whose connections the last message says that they carry something: of what comes in from outside, requests, also those under way, and what is
// passed on as it is. They are good until the next call.
func (r *Reader) Spoke() []netip.AddrPort { return r.spoke }

// speaks takes note of whose connection it is.
func (r *Reader) speaks(l *logged) {
	if r.place != wire.IngressHTTP && r.place != wire.IngressTLS && r.place != wire.IngressTCP {
		return
	}
	if at, err := netip.ParseAddr(l.direct.ip); err == nil {
		r.spoke = append(r.spoke, netip.AddrPortFrom(at, uint16(l.direct.port)))
	}
}

// connections makes records of the entries of TCP proxies.
func (r *Reader) connections(list string) error {
	f := protobuf.Scan(list)
	for f.Next() {
		if f.Tag != entriesLogEntry {
			continue
		}
		var l logged
		if err := l.readTCP(f.Text); err != nil {
			return malformed("entry", err)
		}
		r.speaks(&l)
		switch {
		case l.begins:
			r.begin(&l)
		case l.intermediate && r.place != wire.IngressUDP: // a session of UDP has no end that Envoy would know as such, and is told once
		default:
			r.connection(&l, r.next())
		}
	}
	return malformed("entries", f.Err())
}

// next is one more record.
func (r *Reader) next() *record.Record {
	r.records = append(r.records, record.Record{})
	return &r.records[len(r.records)-1]
}

// malformed says what it is that is malformed.
func malformed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("access log %s: %w", what, err)
}
