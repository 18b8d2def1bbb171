package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// udpSize is what we say that we can take in one datagram (DNS flag day 2020).
const udpSize = 1232

// buffers for datagrams: larger than we ask for, because servers do not always listen.
var buffers = sync.Pool{New: func() any { return new([4096]byte) }}

// request packs a question with an unpredictable id (RFC 5452). AD asks for the verdict of a validating upstream
// (RFC 6840 section 5.7).
func request(q Question, edns bool) *dns.Msg {
	req := &dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id: dns.Id(), Opcode: dns.OpcodeQuery, RecursionDesired: true, AuthenticatedData: true, CheckingDisabled: q.CD,
		},
		Question: []dns.Question{{Name: q.Name, Qtype: q.Type, Qclass: q.Class}},
	}
	if edns {
		req.SetEdns0(udpSize, q.DO)
	}
	return req
}

// exchange sends req from a new socket, and so from an unpredictable port, that takes datagrams from the server only.
func exchange(ctx context.Context, network string, addr netip.AddrPort, req *dns.Msg) (*dns.Msg, error) {
	wire, err := req.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack the question: %w", err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr.String())
	if err != nil {
		return nil, asked(ctx, err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var msg *dns.Msg
	if network == "tcp" {
		msg, err = overTCP(conn, wire, req)
	} else {
		msg, err = overUDP(conn, wire, req)
	}
	return msg, asked(ctx, err)
}

// asked names the reason of an error that the end of ctx has caused. The socket's deadline is ctx's, and may be first.
func asked(ctx context.Context, err error) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	default:
		return fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	}
}

// overUDP waits for the datagram that answers req. What does not match is not an answer, whoever sent it: it is
// passed over, so that a forger's miss does not end the wait for the real one.
func overUDP(conn net.Conn, wire []byte, req *dns.Msg) (*dns.Msg, error) {
	if _, err := conn.Write(wire); err != nil {
		return nil, err
	}
	buf := buffers.Get().(*[4096]byte)
	defer buffers.Put(buf)
	for {
		n, err := conn.Read(buf[:])
		if err != nil {
			return nil, err
		}
		if msg, err := parse(buf[:n], req); err == nil {
			return msg, nil
		}
	}
}

func overTCP(conn net.Conn, wire []byte, req *dns.Msg) (*dns.Msg, error) {
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(wire)), uint16(len(wire)))
	if _, err := conn.Write(append(framed, wire...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, buf); err != nil {
		return nil, err
	}
	return parse(buf, req)
}

// ErrMismatch is a message that does not answer the question.
var ErrMismatch = errors.New("not an answer to the question")

// parse unpacks b if it answers req: same id, same question, a response (RFC 5452 section 9.1).
func parse(b []byte, req *dns.Msg) (*dns.Msg, error) {
	if len(b) < 12 || binary.BigEndian.Uint16(b) != req.Id || b[2]&0x80 == 0 {
		return nil, ErrMismatch
	}
	msg := new(dns.Msg)
	if err := msg.Unpack(b); err != nil {
		// What is cut off may end in the middle of a record. The header is enough to go on by TCP.
		if !msg.Truncated || len(msg.Question) != 1 {
			return nil, fmt.Errorf("%w: %w", ErrMismatch, err)
		}
	}
	if msg.Opcode != dns.OpcodeQuery || !sameQuestion(msg, req) {
		return nil, ErrMismatch
	}
	return msg, nil
}

// sameQuestion also takes a failure without question, as servers send that know no EDNS.
func sameQuestion(msg, req *dns.Msg) bool {
	if len(msg.Question) == 0 {
		return msg.Rcode == dns.RcodeFormatError || msg.Rcode == dns.RcodeNotImplemented
	}
	got, want := msg.Question[0], req.Question[0]
	return len(msg.Question) == 1 && got.Qtype == want.Qtype && got.Qclass == want.Qclass && strings.EqualFold(got.Name, want.Name)
}
