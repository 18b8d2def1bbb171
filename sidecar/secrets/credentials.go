package secrets

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

// DialOptions are the credentials of the agent's connection to the controller: TLS with the roots and the client
// certificate of the moment of each handshake, and the token with each call.
func (w *Workload) DialOptions() []grpc.DialOption {
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay = 500 * time.Millisecond
	reconnect.MaxDelay = 5 * time.Second // a controller that is back is found again soon
	return []grpc.DialOption{
		grpc.WithTransportCredentials(&handshaker{workload: w}),
		grpc.WithPerRPCCredentials(bearer{workload: w}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
	}
}

// ClientTLS is the configuration for one handshake with the controller, as of now. ServerName is for the caller to
// set.
func (w *Workload) ClientTLS() *tls.Config {
	w.rereadRoots()
	m := w.board.read()
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		NextProtos:           []string{"h2"},
		RootCAs:              pool(m.roots()),
		GetClientCertificate: w.clientCertificate,
	}
}

// Certificate is the workload's, for servers of its own. It fails until there is one that holds.
func (w *Workload) Certificate() (*tls.Certificate, error) {
	m := w.board.read()
	if m.certificate == nil || m.certificate.expired(time.Now()) {
		return nil, errors.New("the workload has no valid certificate yet")
	}
	return &m.certificate.pair, nil
}

// Roots are those of the mesh, as of now.
func (w *Workload) Roots() *x509.CertPool {
	w.rereadRoots()
	m := w.board.read()
	return pool(m.roots())
}

// clientCertificate shows the workload's certificate if the controller can accept it. One that expired, or that
// another CA signed, would end the handshake, where the token alone gets the agent a new one.
func (w *Workload) clientCertificate(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	m := w.board.read()
	if c := m.certificate; c != nil && !c.expired(time.Now()) && asked.SupportsCertificate(&c.pair) == nil {
		return &c.pair, nil
	}
	return &tls.Certificate{}, nil
}

// handshaker is TLS whose configuration is made for each handshake.
type handshaker struct {
	workload   *Workload
	serverName string
}

func (h *handshaker) tls() credentials.TransportCredentials {
	config := h.workload.ClientTLS()
	config.ServerName = h.serverName
	return credentials.NewTLS(config)
}

func (h *handshaker) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return h.tls().ClientHandshake(ctx, authority, raw)
}

func (h *handshaker) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the agent's credentials are a client's")
}

func (h *handshaker) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{ServerName: h.serverName}).Info()
}

func (h *handshaker) Clone() credentials.TransportCredentials {
	clone := *h
	return &clone
}

func (h *handshaker) OverrideServerName(name string) error {
	h.serverName = name
	return nil
}

// bearer sends the token of the token file with each call.
type bearer struct{ workload *Workload }

// GetRequestMetadata reads the file. Without one the client certificate has to do, if there is one.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(b.workload.options.TokenFile)
	if err != nil {
		if s := b.workload.Status(); s.Identity != "" && !s.Expired {
			return nil, nil
		}
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity keeps the token off connections without TLS.
func (b bearer) RequireTransportSecurity() bool { return true }

// readToken never lets the token into an error.
func readToken(path string) (string, error) {
	if path == "" {
		return "", errors.New("neither a token file nor a valid certificate: give --token FILE")
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("token file %s is missing", path)
	} else if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("token file %s does not hold one token", path)
	}
	return token, nil
}
