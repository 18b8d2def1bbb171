package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/console/login"
)

// TestLateCertificate: the log is kept without the door's certificate, and the door opens when it is there.
func TestLateCertificate(t *testing.T) {
	dir := t.TempDir()
	c := &lateCertificate{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.run(ctx)
		}()
		time.Sleep(tryCertificate / 2)
		if _, err := c.get(&tls.ClientHelloInfo{}); err == nil {
			t.Error("there is a certificate where there is none")
		}
		if err := os.WriteFile(c.cert, []byte("broken"), 0o600); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * tryCertificate)
		if _, err := c.get(&tls.ClientHelloInfo{}); err == nil {
			t.Error("a broken one counts")
		}
		cancel()
		<-ended
	})
}

func TestDoorsSettings(t *testing.T) {
	for want, f := range map[string]*loginFlags{
		"--console-tls-cert":   {addr: "127.0.0.1:0"},
		"client ID":            {addr: "127.0.0.1:0", cert: "c", key: "k", issuer: issuerAt("https://i.test", "")},
		"begins with https://": {addr: "127.0.0.1:0", cert: "c", key: "k", issuer: issuerAt("http://i.test", "console")},
		"no certificate in it": {addr: "127.0.0.1:0", cert: "c", key: "k", issuer: issuerAt("https://i.test", "console"), issuerRoots: os.DevNull},
		"asked of a cluster":   {addr: "127.0.0.1:0", cert: "c", key: "k", kubeconfig: "/nowhere"},
	} {
		_, err := f.door(t.Context(), &errgroup.Group{}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func issuerAt(url, client string) login.IssuerOptions {
	return login.IssuerOptions{URL: url, ClientID: client, Callback: "https://c.test" + login.CallbackPath}
}
