package envoylog

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// AccessLogType's TcpUpstreamConnected and DownstreamTunnelSuccessfullyEstablished.
const (
	typeConnected = 1
	typeUpgraded  = 10
)

// versionHTTP11 is HTTPVersion's HTTP11.
const versionHTTP11 = 2

// mostPath is how long the path of a request may be, in bytes, that is asked about again: so many may be open.
const mostPath = 2 << 10

// Tunnel is a connection that is open at an exit, and carries nothing but what one client says to one host.
type Tunnel struct {
	Question
	Local, Client netip.AddrPort // the two ends of the client's connection with the gateway
	Began         time.Time      // as in its record, when it has ended

	// Outward and Server are the two ends of the proxy's connection with the server for it, where that is told.
	Outward, Server netip.AddrPort

	Pod     string // of a node's proxy, in whose network it is: NAMESPACE/NAME
	Unknown bool   // nobody can ask about it, and nothing else is said of it
	Nowhere bool   // nor does it go on: a CONNECT to what takes no connection
}

// Question is what a gateway's table was asked about a connection.
type Question struct {
	Kind      string // wire.KindTLS, wire.KindTCP or wire.KindHTTP
	Authority string // "host:port"
	Peer      string // the client's SPIFFE id, as it was verified; "" at a forward proxy
	From      string // the client's address
	Subset    string // the namespace whose registration it means, and the address that it dialled: "NAMESPACE~ADDRESS:PORT"

	Method, Path string // of a request
	Outside      string // of one that leaves where no exit is: as what policies judged it
	PortTable    string // of such a one, at a node: the table of its port, whose rows say what is registered there; at a waypoint the one that is asked

	Table, Dialled, Range string // of a connection that leaves there: the table that was asked, the address that the client connected to, and what was asked for last, "host:port"
	Registered            string // the host by whose registration it leaves; "" where none is known
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
	kind := wire.HeaderKind
	if q.Kind == wire.KindHTTP {
		kind = wire.HeaderRequest
	}
	for _, h := range [...]struct{ name, value string }{
		{kind, q.Kind}, {wire.HeaderPeer, q.Peer}, {wire.HeaderFrom, q.From}, {wire.HeaderRegisteredIn, registered}, {wire.HeaderDialled, dialled}, {wire.HeaderOutside, q.Outside},
	} {
		if h.value != "" {
			add(h.name, h.value)
		}
	}
}

// Begun are the tunnels that the last message says have begun. They are good for as long as anybody likes.
func (r *Reader) Begun() []Tunnel { return r.begun }

// begin takes note of a connection that has begun, if it is a tunnel's. A forward proxy's clients show nobody who they are, and what is no tunnel there shares its connection.
func (r *Reader) begin(l *logged) {
	forward := r.place == wire.ForwardTLS || r.place == wire.ForwardTCP
	if r.place == wire.SidecarTunnel || r.place == wire.InboundTCP {
		r.leaves(l)
		return
	}
	local, subset, is := strings.Cut(l.tags.tunnel, " ")
	t, known := l.opened(local, l.tags.source)
	if forward && !(is && known) {
		r.begun = append(r.begun, Tunnel{Unknown: true})
		return
	}
	if !is || !known || l.tags.peer == "" && !forward {
		return
	}
	t.Question = Question{
		Kind: wire.KindTLS, Authority: strings.Clone(l.tags.authority), Peer: strings.Clone(l.tags.peer),
		From: t.Client.Addr().String(), Subset: strings.Clone(subset),
	}
	if r.place == wire.GatewayTCP || r.place == wire.ForwardTCP {
		t.Kind = wire.KindTCP
	}
	r.begun = append(r.begun, t)
}

// leaves takes note of a connection that leaves where no exit is.
func (r *Reader) leaves(l *logged) {
	if r.place == wire.InboundTCP && l.tags.tunnel == "" {
		return // it came by HBONE, and is told of there
	}
	of, local, client, is := wire.ParseLeaving(strings.Clone(l.tags.tunnel))
	if !is || of.Table == "" { // it shares its connection
		r.begun = append(r.begun, Tunnel{Unknown: true})
		return
	}
	t := Tunnel{
		Question: Question{Kind: of.Kind, Authority: strings.Clone(l.tags.authority), Subset: of.In, Table: of.Table, Dialled: of.To, Range: of.Range, Registered: strings.Clone(wire.HostOf(l.cluster))},
		Local:    local, Client: client, Began: time.Unix(l.seconds, l.nanos).UTC(), Pod: strings.Clone(l.tags.pod),
	}
	if l.tags.peer != "" { // else there is one workload
		t.Peer, t.From = strings.Clone(l.tags.peer), client.Addr().String()
	}
	t.Outward, _ = netip.ParseAddrPort(l.outward.String()) // or else they are not valid
	t.Server, _ = netip.ParseAddrPort(l.upstream.String())
	r.begun = append(r.begun, t)
}

// opened is a tunnel between two addresses; false where it is no connection of the network's.
func (l *logged) opened(local, client string) (t Tunnel, is bool) {
	var err, bad error
	t.Began = time.Unix(l.seconds, l.nanos).UTC()
	t.Local, err = netip.ParseAddrPort(local)
	t.Client, bad = netip.ParseAddrPort(client)
	return t, err == nil && bad == nil
}

// upgrade takes note of a request that has been upgraded at an exit. A CONNECT is told of where its bytes are.
func (r *Reader) upgrade(l *logged) {
	switch {
	case r.place == wire.GatewayHTTP:
		r.begun = append(r.begun, l.upgraded(1))
	case r.place == wire.ForwardHTTP && l.method != methodCONNECT:
		r.begun = append(r.begun, l.upgraded(0))
	}
}

// upgraded is a request that has been upgraded. It has a connection to itself, and can be asked about as it was: by HTTP/2 it would share it, and no other method begins an upgrade by
// HTTP/1.1. Of any other, and of clients that have shown another number of names than so many, all that is said is that it is Unknown.
func (l *logged) upgraded(names int) Tunnel {
	const get = 1
	path, _, _ := strings.Cut(l.path, "?") // no policy looks further
	authority, is := l.registered()
	if !is || len(authority) > mostAuthority || l.version != versionHTTP11 || l.peers != names || l.method != get || !plain(path) {
		return Tunnel{Unknown: true}
	}
	t, is := l.opened(l.local.String(), l.direct.String())
	if !is {
		return Tunnel{Unknown: true}
	}
	t.Question = Question{
		Kind: wire.KindHTTP, Authority: authority, Subset: strings.Clone(record.ParseObject(l.tags.config).Namespace), Peer: strings.Clone(l.peer), From: t.Client.Addr().String(),
		Method: methods[get], Path: strings.Clone(path),
	}
	return t
}

// plain says whether a path can be sent again as it was: it is visible ASCII, and not too long.
func plain(path string) bool {
	return strings.HasPrefix(path, "/") && len(path) <= mostPath && !strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// registered is whom a request was for that went as its host is registered, "host:port" as its row has it: what it says of itself may have lost its port on the way,
// and of one that a user's route led nobody knows what it was before.
func (l *logged) registered() (authority string, is bool) {
	way := strings.SplitN(l.cluster, "|", 4) // wire.SubsetName
	if led := l.tags.policy != "" && !strings.HasPrefix(l.tags.policy, "ServiceEntry/"); led || l.route != "default" || len(way) != 4 {
		return "", false
	}
	port, err := strconv.ParseUint(way[1], 10, 16)
	if err != nil {
		return "", false
	}
	e := entry{Record: new(record.Record)}
	e.setTarget(l.authority, uint32(port))
	suffix, pattern := strings.CutPrefix(way[3], "*")
	is = e.Host == way[3] || pattern && strings.HasSuffix(e.Host, suffix)
	return wire.HostPort(e.Host, e.Port), is && !strings.Contains(e.Host, ":")
}

var errNoAnswer = errors.New("it says nowhere to go")

// Answer is what a table says of a connection, or a request that was one.
type Answer struct {
	Denied bool
	Gone   bool          // it is, since nothing is registered any more for what was asked
	Why    string        // it is denied
	By     record.Object // the policy that denies it; nothing where none does
}

// ReadAnswer reads what a table answers to a question (a RateLimitResponse).
func ReadAnswer(message string) (a Answer, err error) {
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
		return a, malformed("answer", f.Err())
	case cluster == "":
		return a, malformed("answer", errNoAnswer)
	case cluster != wire.BlackHoleCluster:
		return a, nil
	}
	e := entry{Record: new(record.Record), logged: &l}
	switch {
	case e.forbid(""):
		return Answer{Denied: true, Why: e.Reason, By: e.DecidedBy}, nil
	case route == wire.FetchRoute: // which says nothing of what there is
		return a, malformed("answer", errNoAnswer)
	case route == wire.BlockAllRoute, route == "":
		return Answer{Denied: true, Gone: true, Why: "the host is not registered any more"}, nil
	case route == wire.NotExportedRoute:
		return Answer{Denied: true, Why: "registered, but not exported to this namespace"}, nil
	default:
		return Answer{Denied: true, Why: strings.TrimPrefix(route, wire.ClosedRoute)}, nil
	}
}
