package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"time"
)

// request is what the server saw.
type request struct {
	Name    string      `json:"name"`
	Remote  string      `json:"remote"`
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	Path    string      `json:"path"`
	Proto   string      `json:"proto"`
	Headers http.Header `json:"headers"`
}

func handler(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, request{Name: name, Remote: r.RemoteAddr, Method: r.Method, Host: r.Host, Path: r.URL.RequestURI(), Proto: r.Proto, Headers: r.Header})
	})
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.PathValue("code"))
		if err != nil || code < 200 || code > 599 {
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
	})
	mux.HandleFunc("/socket", acceptSocket)
	mux.HandleFunc("/grpc.health.v1.Health/Check", serveHealth)
	mux.HandleFunc("/fetch", answer(fetch))
	mux.HandleFunc("/load", load)
	mux.HandleFunc("/tcp", answer(tcp))
	mux.HandleFunc("/udp", answer(udp))
	mux.HandleFunc("/ws", answer(webSocket))
	mux.HandleFunc("/grpc", answer(grpc))
	mux.HandleFunc("/resolve", answer(resolve))
	return mux
}

// answer makes a handler of a client's deed: 200 with what came of it, be it an error of the deed; 400 when the call
// itself is wrong.
func answer[T any](deed func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := deed(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, result)
	}
}

// serveLines answers every line with "NAME: LINE", until the listener is closed. With first it begins with its name.
func serveLines(l net.Listener, name string, first bool) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			if first {
				if _, err := fmt.Fprintf(c, "%s greets\n", name); err != nil {
					return
				}
			}
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				if _, err := fmt.Fprintf(c, "%s: %s\n", name, lines.Text()); err != nil {
					return
				}
			}
		}()
	}
}

// serveDatagrams answers every datagram with "NAME: DATAGRAM", until the socket is closed.
func serveDatagrams(c net.PacketConn, name string) error {
	buffer := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(buffer)
		if err != nil {
			return err
		}
		_, _ = c.WriteTo(fmt.Appendf(nil, "%s: %s", name, buffer[:n]), from)
	}
}

// ownCertificate makes a certificate that nobody can verify.
func ownCertificate(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
