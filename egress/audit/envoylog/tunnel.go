package envoylog

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// typeConnected is AccessLogType's TcpUpstreamConnected.
const typeConnected = 1

// Tunnel is a connection that is open at an egress gateway, and carries nothing but what one client says to one host.
type Tunnel struct {
	Question
	Local, Client netip.AddrPort // the two ends of the client's connection with the gateway
	Began         time.Time      // as in its record, when it has ended
}

// Question is what a gateway's table was asked about a connection.
type Question struct {
	Kind      string // wire.KindTLS or wire.KindTCP
	Authority string // "host:port"
	Peer      string // the client's SPIFFE id, as it was verified
	From      string // the client's address
	Subset    string // the namespace whose registration it means, and the address that it dialled: "NAMESPACE~ADDRESS:PORT"
}

// Host is what is asked for, in lower case, and without its port.
func (q Question) Host() string {
	e := entry{Record: new(record.Record)}
	e.setTarget(q.Authority, 0)
	return e.Host
}

// Namespace is the client's.
func (q Question) Namespace() string { return workload(q.Peer).Namespace }

// Header is the question as its table is asked it, beside the authority.
func (q Question) Header(add func(name, value string)) {
	registered, dialled, _ := strings.Cut(q.Subset, "~")
	for _, h := range [...]struct{ name, value string }{
		{wire.HeaderKind, q.Kind}, {wire.HeaderPeer, q.Peer}, {wire.HeaderFrom, q.From}, {wire.HeaderRegisteredIn, registered}, {wire.HeaderDialled, dialled},
	} {
		if h.value != "" {
			add(h.name, h.value)
		}
	}
}

// Begun are the tunnels that the last message says have begun. They are good for as long as anybody likes.
func (r *Reader) Begun() []Tunnel { return r.begun }

// begin takes note of a connection that has begun, if it is a tunnel's.
func (r *Reader) begin(l *logged) {
	local, subset, is := strings.Cut(l.tags.tunnel, " ")
	if !is || l.tags.peer == "" {
		return
	}
	t := Tunnel{Began: time.Unix(l.seconds, l.nanos).UTC()}
	var err, bad error
	t.Local, err = netip.ParseAddrPort(local)
	t.Client, bad = netip.ParseAddrPort(l.tags.source)
	if err != nil || bad != nil {
		return // not a connection of the network's
	}
	t.Question = Question{
		Kind: wire.KindTLS, Authority: strings.Clone(l.tags.authority), Peer: strings.Clone(l.tags.peer),
		From: t.Client.Addr().String(), Subset: strings.Clone(subset),
	}
	if r.place == wire.GatewayTCP {
		t.Kind = wire.KindTCP
	}
	r.begun = append(r.begun, t)
}

var errNoAnswer = errors.New("it says nowhere to go")

// ReadAnswer reads what a table answers to a question (a RateLimitResponse): whether such a connection may go nowhere, and why not.
func ReadAnswer(message string) (denied bool, why string, err error) {
	var l logged
	var cluster, route string
	f := protobuf.Scan(message)
	for f.Next() {
		if f.Tag != answerMetadata {
			continue
		}
		s := protobuf.Scan(f.Text)
		for s.Next() {
			if s.Tag != structField {
				continue
			}
			key, value, err := readField(s.Text)
			s.Fail(err)
			switch key {
			case "cluster":
				cluster = value
			case "route":
				route = value
			}
			l.setRule(key, value)
		}
		f.Fail(s.Err())
	}
	switch {
	case f.Err() != nil:
		return false, "", malformed("answer", f.Err())
	case cluster == "":
		return false, "", malformed("answer", errNoAnswer)
	case cluster != wire.BlackHoleCluster:
		return false, "", nil
	}
	e := entry{Record: new(record.Record), logged: &l}
	switch {
	case e.forbid(""):
		return true, e.Reason, nil
	case route == wire.BlockAllRoute, route == "":
		return true, "the host is not registered any more", nil
	case route == wire.NotExportedRoute:
		return true, "registered, but not exported to this namespace", nil
	default:
		return true, strings.TrimPrefix(route, wire.ClosedRoute), nil
	}
}
