package whole

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// limit bounds an exchange at the server, so that nothing is left behind.
const limit = 3 * time.Minute

// Server takes exchanges and keeps its account of each.
type Server struct {
	mu       sync.Mutex
	accounts map[string]chan Account
}

// NewServer makes one that nobody can reach yet.
func NewServer() *Server { return &Server{accounts: map[string]chan Account{}} }

// Account gives the server's account of an exchange, when it has ended; of one that never came, none ever.
func (s *Server) Account(id string) <-chan Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.accounts[id]
	if !ok {
		c = make(chan Account, 1)
		s.accounts[id] = c
	}
	return c
}

func (s *Server) note(id string, a Account) {
	s.Account(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.accounts[id] <- a:
	default: // a second one of the same name: whoever asks sees the first
	}
}

// each takes connections until the listener is closed.
func each(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(limit))
		go f(c)
	}
}

// ServeTCP takes exchanges as they are.
func (s *Server) ServeTCP(l net.Listener) {
	each(l, func(c net.Conn) { s.take(Plain(c, nil)) })
}

// greeting is what a server says first.
const greeting = "220 speak\n"

// ServeGreeting takes exchanges as they are, and speaks first.
func (s *Server) ServeGreeting(l net.Listener) {
	each(l, func(c net.Conn) {
		if _, err := io.WriteString(c, greeting); err != nil {
			_ = c.Close()
			return
		}
		s.take(Plain(c, nil))
	})
}

// Greeted runs an exchange with a server that speaks first.
func Greeted(c Conn, e Exchange) Account {
	if err := expect(c, greeting); err != nil {
		_ = c.Close()
		return Account{Err: err}
	}
	return Run(c, e)
}

// ServeTLS takes exchanges inside TLS.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) {
	each(l, func(c net.Conn) { s.take(Secure(tls.Server(c, config), Plain(c, nil))) })
}

func (s *Server) take(c Conn) {
	if e, a, err := serve(c); err == nil {
		s.note(e.ID, a)
	}
}

// ServeHTTP1 takes exchanges behind an upgrade to WebSocket (RFC 6455, without its frames, which nothing between looks
// at), and downloads by HTTP/1.0, which end with their connection.
func (s *Server) ServeHTTP1(l net.Listener) {
	each(l, func(c net.Conn) {
		in := bufio.NewReaderSize(c, piece)
		request, err := http.ReadRequest(in)
		if err != nil {
			_ = c.Close()
			return
		}
		if strings.EqualFold(request.Header.Get("Upgrade"), "websocket") {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			s.take(Plain(c, in))
			return
		}
		defer func() { _ = c.Close() }()
		e, err := parse(request.Header.Get(orderHeader))
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n")
		s.note(e.ID, e.server(Plain(c, in), in))
	})
}

// orderHeader orders an exchange where HTTP carries it.
const orderHeader = "Exchange"

// ServeHTTP2 takes exchanges as streams of HTTP/2 without TLS: what the client sends is the request's body, and what the
// server sends the response's. With the content type of gRPC its trailers end a stream.
func (s *Server) ServeHTTP2(l net.Listener) {
	server := &http.Server{
		ReadHeaderTimeout: limit, Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e, err := parse(r.Header.Get(orderHeader))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			w.Header().Set("Trailer", "Grpc-Status")
			stream := &response{w, r.Body, http.NewResponseController(w)}
			_ = stream.flush.Flush()
			a := e.server(stream, r.Body)
			w.Header().Set("Grpc-Status", "0")
			s.note(e.ID, a)
			if e.Shape == ResetByServer {
				panic(http.ErrAbortHandler)
			}
		}),
	}
	server.Protocols.SetUnencryptedHTTP2(true)
	_ = server.Serve(l)
}

// response is a stream at its server.
type response struct {
	http.ResponseWriter
	body  io.Reader
	flush *http.ResponseController
}

// Write sends at once.
func (r *response) Write(b []byte) (int, error) {
	n, err := r.ResponseWriter.Write(b)
	return n, errors.Join(err, r.flush.Flush())
}

// Read reads the request's body.
func (r *response) Read(b []byte) (int, error) { return r.body.Read(b) }

// Close does nothing: the stream ends with its handler.
func (r *response) Close() error { return nil }

// CloseWrite does nothing: the stream ends with its handler.
func (r *response) CloseWrite() error { return nil }

// Reset does nothing: the handler does it.
func (r *response) Reset() error { return nil }

// Upgrade asks for a WebSocket and runs an exchange in it.
func Upgrade(c net.Conn, target, host string, e Exchange) Account {
	in := bufio.NewReaderSize(c, piece)
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", target, host)
	if err == nil {
		var response *http.Response
		//nolint:bodyclose // its body is the connection
		if response, err = http.ReadResponse(in, nil); err == nil && response.StatusCode != http.StatusSwitchingProtocols {
			err = errors.New(response.Status)
		}
	}
	if err != nil {
		_ = c.Close()
		return Account{Err: fmt.Errorf("upgrading: %w", err)}
	}
	return Run(Plain(c, in), e)
}

// Get10 downloads by HTTP/1.0, without a length: the end of the connection is the end of the body.
func Get10(c net.Conn, target, host string, e Exchange) Account {
	defer func() { _ = c.Close() }()
	in := bufio.NewReaderSize(c, piece)
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.0\r\nHost: %s\r\n%s: %s\r\n\r\n", target, host, orderHeader, e); err != nil {
		return Account{Err: err}
	}
	response, err := http.ReadResponse(in, nil) //nolint:bodyclose // its body is the connection
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return Account{Err: err}
	}
	return e.client(Plain(c, in), response.Body)
}

// Stream runs an exchange as a stream of HTTP/2 through a client that speaks it without TLS.
func Stream(client *http.Client, url, contentType string, e Exchange) Account {
	body, in := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		return Account{Err: err}
	}
	request.Header.Set(orderHeader, e.String())
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Te", "trailers")
	resp, err := client.Do(request)
	if err != nil {
		return Account{Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return Account{Err: errors.Join(errors.New(resp.Status), in.Close())}
	}
	a := e.client(&request2{Writer: in, Reader: resp.Body, in: in}, resp.Body)
	if err := in.Close(); a.Err == nil {
		a.Err = err
	}
	if a.Err == nil && (e.Shape == Download || e.Shape == Ask) && resp.Trailer.Get("Grpc-Status") != "0" {
		a.Err = errors.New("the trailers are missing")
	}
	return a
}

// request2 is a stream at its client.
type request2 struct {
	io.Writer
	io.Reader
	in *io.PipeWriter
}

// Close ends the request's body.
func (r *request2) Close() error { return r.in.Close() }

// CloseWrite ends the request's body.
func (r *request2) CloseWrite() error { return r.in.Close() }

// Reset breaks the request's body off.
func (r *request2) Reset() error { return r.in.CloseWithError(errors.New("broken off")) }
