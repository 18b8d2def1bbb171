package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
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
	mux.HandleFunc("/fetch", answer(fetch))
	mux.HandleFunc("/tcp", answer(tcp))
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

// serveLines answers every line with "NAME: LINE", until the listener is closed.
func serveLines(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				if _, err := fmt.Fprintf(c, "%s: %s\n", name, lines.Text()); err != nil {
					return
				}
			}
		}()
	}
}
