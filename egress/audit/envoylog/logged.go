package envoylog

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/xds/wire"
)

// logged is what records need of an entry (envoy.data.accesslog.v3): a HTTPAccessLogEntry or a TCPAccessLogEntry.
type logged struct {
	intermediate               bool
	begins                     bool  // it is of a connection that has got where it goes, or a request that was upgraded, and goes on
	sentOn                     bool  // something of it was sent on (time_to_first_upstream_tx_byte)
	seconds, nanos             int64 // start time
	duration                   time.Duration
	remote, direct             socket // of the client, as claimed and as connected
	local, upstream            socket
	outward                    socket // the proxy's end of its connection with the server
	cluster, route             string
	ended                      string // connection_termination_details
	flags                      flagSet
	tags                       tags
	metadata                   string
	rules                      *rules // nil where the metadata says nothing of any
	sni, peer                  string
	peers                      int // names in the client's certificate
	received, sent             uint64
	version, method            uint64
	authority, path, howItWent string // howItWent: response_code_details
	status                     uint32
}

// socket is a SocketAddress; other addresses have none. As a text it is as net.JoinHostPort writes it.
type socket struct {
	ip   string
	port uint32
}

func (s socket) String() string {
	if s.ip == "" {
		return ""
	}
	var room [64]byte
	text := room[:0]
	if strings.IndexByte(s.ip, ':') >= 0 {
		text = append(append(append(text, '['), s.ip...), ']')
	} else {
		text = append(text, s.ip...)
	}
	return string(strconv.AppendUint(append(text, ':'), uint64(s.port), 10))
}

// tags are the custom tags. A value that Envoy does not know is "".
type tags struct{ config, role, policy, authority, peer, source, target, route, by, revision, rules, pod, tunnel, handshake string }

func (t *tags) set(name, value string) {
	if value == "-" {
		value = ""
	}
	switch name {
	case wire.TagConfig:
		t.config = value
	case wire.TagRole:
		t.role = value
	case wire.TagPolicy:
		t.policy = value
	case wire.TagAuthority:
		t.authority = value
	case wire.TagPeer:
		t.peer = value
	case wire.TagSource:
		t.source = value
	case wire.TagTarget:
		t.target = value
	case wire.TagRoute:
		t.route = value
	case wire.TagBy:
		t.by = value
	case wire.TagRevision:
		t.revision = value
	case wire.TagRules:
		t.rules = value
	case wire.TagTunnel:
		t.tunnel = value
	case wire.TagHandshake:
		t.handshake = value
	case wire.TagPod:
		t.pod = value
	case wire.TagDecided:
		for i, value := range wire.SplitDecided(value) {
			t.set(wire.DecidedTags[i], value)
		}
	}
}

// readHTTP reads a HTTPAccessLogEntry.
func (l *logged) readHTTP(entry string) error {
	f := protobuf.Scan(entry)
	for f.Next() {
		switch f.Tag {
		case entryCommon:
			f.Fail(l.readCommon(f.Text))
		case httpVersion:
			l.version = f.Uint
		case httpRequest:
			f.Fail(l.readRequest(f.Text))
		case httpResponse:
			f.Fail(l.readResponse(f.Text))
		}
	}
	if err := f.Err(); err != nil || l.metadata == "" {
		return err
	}
	return l.readMetadata(wire.RuleFilter)
}

// readTCP reads a TCPAccessLogEntry.
func (l *logged) readTCP(entry string) error {
	f := protobuf.Scan(entry)
	for f.Next() {
		switch f.Tag {
		case entryCommon:
			f.Fail(l.readCommon(f.Text))
		case tcpConnection:
			f.Fail(l.readConnection(f.Text))
		}
	}
	err := f.Err()
	if err == nil && strings.Contains(l.metadata, wire.RuleFilterTCP) {
		err = l.readMetadata(wire.RuleFilterTCP)
	}
	if err != nil || !l.answerTells() {
		return err
	}
	return l.readMetadata(wire.AnswerFilter)
}

func (l *logged) readCommon(common string) error {
	f := protobuf.Scan(common)
	for f.Next() {
		switch f.Tag {
		case commonRemote:
			f.Fail(l.remote.read(f.Text))
		case commonDirect:
			f.Fail(l.direct.read(f.Text))
		case commonLocal:
			f.Fail(l.local.read(f.Text))
		case commonUpstream:
			f.Fail(l.upstream.read(f.Text))
		case commonOutward:
			f.Fail(l.outward.read(f.Text))
		case commonTLS:
			f.Fail(l.readTLS(f.Text))
		case commonStart:
			var err error
			l.seconds, l.nanos, err = readTime(f.Text)
			f.Fail(err)
		case commonDuration:
			seconds, nanos, err := readTime(f.Text)
			l.duration = duration(seconds, nanos)
			f.Fail(err)
		case commonFirstSent:
			l.sentOn = true
		case commonCluster:
			l.cluster = f.Text
		case commonRoute:
			l.route = f.Text
		case commonFlags:
			f.Fail(l.flags.read(f.Text))
		case commonTags:
			f.Fail(l.tags.read(f.Text))
		case commonMetadata:
			l.metadata = f.Text
		case commonEnded:
			l.ended = f.Text
		case commonIntermediate:
			l.intermediate = f.Uint != 0
		case commonType:
			l.begins = f.Uint == typeConnected || f.Uint == typeUpgraded
		}
	}
	return f.Err()
}

// read reads an Address.
func (s *socket) read(address string) error {
	f := protobuf.Scan(address)
	for f.Next() {
		if f.Tag == addressSocket {
			inner := protobuf.Scan(f.Text)
			for inner.Next() {
				switch inner.Tag {
				case socketAddress:
					s.ip = inner.Text
				case socketPort:
					s.port = uint32(inner.Uint)
				}
			}
			f.Fail(inner.Err())
		}
	}
	return f.Err()
}

// read reads an entry of the map of custom tags.
func (t *tags) read(pair string) error {
	var name, value string
	f := protobuf.Scan(pair)
	for f.Next() {
		switch f.Tag {
		case mapKey:
			name = f.Text
		case mapValue:
			value = f.Text
		}
	}
	t.set(name, value)
	return f.Err()
}

// readTLS reads TLSProperties.
func (l *logged) readTLS(properties string) error {
	f := protobuf.Scan(properties)
	for f.Next() {
		switch f.Tag {
		case tlsSNI:
			l.sni = f.Text
		case tlsPeer:
			f.Fail(l.readCertificate(f.Text))
		}
	}
	return f.Err()
}

// readCertificate reads the names in the client's.
func (l *logged) readCertificate(properties string) error {
	f := protobuf.Scan(properties)
	for f.Next() {
		if f.Tag != certificateName {
			continue
		}
		l.peers++
		l.peer = ""
		name := protobuf.Scan(f.Text)
		for name.Next() {
			if name.Tag == nameURI {
				l.peer = name.Text
			}
		}
		f.Fail(name.Err())
	}
	return f.Err()
}

func (l *logged) readRequest(request string) error {
	f := protobuf.Scan(request)
	for f.Next() {
		switch f.Tag {
		case requestMethod:
			l.method = f.Uint
		case requestAuthority:
			l.authority = f.Text
		case requestPath:
			l.path = f.Text
		case requestBodyBytes:
			l.received = f.Uint
		}
	}
	return f.Err()
}

func (l *logged) readResponse(response string) error {
	f := protobuf.Scan(response)
	for f.Next() {
		switch f.Tag {
		case responseCode:
			code := protobuf.Scan(f.Text)
			for code.Next() {
				if code.Tag == wrappedValue {
					l.status = uint32(code.Uint)
				}
			}
			f.Fail(code.Err())
		case responseBodyBytes:
			l.sent = f.Uint
		case responseDetails:
			l.howItWent = f.Text
		}
	}
	return f.Err()
}

func (l *logged) readConnection(connection string) error {
	f := protobuf.Scan(connection)
	for f.Next() {
		switch f.Tag {
		case connectionReceived:
			l.received = f.Uint
		case connectionSent:
			l.sent = f.Uint
		}
	}
	return f.Err()
}

// readTime reads a Timestamp or a Duration, which look the same.
func readTime(text string) (seconds, nanos int64, err error) {
	f := protobuf.Scan(text)
	for f.Next() {
		switch f.Tag {
		case timeSeconds:
			seconds = int64(f.Uint)
		case timeNanos:
			nanos = int64(int32(f.Uint))
		}
	}
	return seconds, nanos, f.Err()
}

// duration is as long as a time.Duration can be at most.
func duration(seconds, nanos int64) time.Duration {
	const most = math.MaxInt64/int64(time.Second) - 3 // nanos are an int32
	return time.Duration(min(max(seconds, -most), most)*int64(time.Second) + nanos)
}
