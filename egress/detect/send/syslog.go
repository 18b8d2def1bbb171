package send

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/sallyport/sallyport/egress/detect"
)

// syslog sends a message a finding by RFC 5424: over TCP and TLS with its length before it (RFC 6587 and 5425), over UDP in a datagram each
// (RFC 5426). That a server has taken it is known by TCP and TLS only as far as its kernel goes.
type syslog struct{ *to }

const (
	logAudit    = 13   // the facility
	maxDatagram = 2048 // what receivers should take (RFC 5424, section 6.1)
)

// severities are syslog's, by ours.
var severities = map[detect.Severity]int{detect.Informational: 6, detect.Low: 5, detect.Medium: 4, detect.High: 3, detect.Critical: 2}

// Send implements Sink.
func (s syslog) Send(ctx context.Context, findings []detect.Finding) error {
	return s.over(ctx, func(conn net.Conn, scheme string) error {
		for i := range findings {
			if err := s.write(conn, scheme, &findings[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// over writes messages to a connection, and again where that fails.
func (s syslog) over(ctx context.Context, write func(conn net.Conn, scheme string) error) error {
	a, err := s.read()
	if err != nil {
		return err
	}
	config, err := s.tls()
	if err != nil {
		return err
	}
	config.ServerName = a.Hostname()
	return s.again(ctx, func() error {
		conn, err := s.dial(ctx, a, config)
		if err != nil {
			return a.secretive(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(s.options.Timeout)); err != nil {
			return backoff.Permanent(a.secretive(err))
		}
		if err := write(conn, a.Scheme); err != nil {
			return a.secretive(err)
		}
		return nil
	})
}

// dial connects; ports are by default those of the RFCs.
func (s syslog) dial(ctx context.Context, a *address, config *tls.Config) (net.Conn, error) {
	port := a.Port()
	if port == "" {
		port = map[string]string{"udp": "514", "tcp": "601", "tls": "6514"}[a.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	where := net.JoinHostPort(a.Hostname(), port)
	if a.Scheme == "tls" {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", where)
	}
	return (&net.Dialer{}).DialContext(ctx, a.Scheme, where)
}

func (s syslog) write(conn net.Conn, scheme string, f *detect.Finding) error {
	message, err := s.message(f)
	if err != nil {
		return backoff.Permanent(err)
	}
	if scheme == "udp" {
		if len(message) > maxDatagram {
			short := *f
			short.Evidence = map[string]any{"cut": true}
			if message, err = s.message(&short); err != nil {
				return backoff.Permanent(err)
			}
		}
		_, err = conn.Write(message)
		return err
	}
	_, err = fmt.Fprintf(conn, "%d %s", len(message), message)
	return err
}

// message is <PRI>1 TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG; MSG is the finding's JSON, in which nothing below a blank is.
func (s syslog) message(f *detect.Finding) ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return framed(severities[f.Severity], s.options.Now(), f.Detection, body), nil // an id has 40 letters, MSGID 32
}

func framed(severity int, at time.Time, id string, body []byte) []byte {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "-"
	}
	return fmt.Appendf(nil, "<%d>1 %s %.255s sallyport %d %.32s - %s", logAudit*8+severity, at.UTC().Format("2006-01-02T15:04:05.000000Z"), host, os.Getpid(), id, body)
}
