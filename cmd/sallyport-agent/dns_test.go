package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/sallyport/sallyport/cmd/program"
)

func TestDNSCommandRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--listen":             {"--upstream", "127.0.0.1"},
		"--upstream is needed": {"--listen", "127.0.0.1:0"},
		"exclude each other":   {"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1", "--resolv-conf", "/etc/resolv.conf"},
		`upstreams[0] "x"`:     {"--listen", "127.0.0.1:0", "--upstream", "x"},
		"--forward":            {"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1", "--forward", "corp.test"},
		"--admin-addr":         {"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1", "--admin-addr", "0.0.0.0:5380"},
		"--local says":         {"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1", "--local", "cluster.local"},
		"--rate":               {"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1", "--rate", "-1"},
		"--patience":           {"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1", "--patience", "0"},
		"no certificate":       {"--listen", "127.0.0.1:0", "--upstream", "tls://127.0.0.1", "--upstream-ca", "dns_test.go"},
		"--names-only needs":   {"--listen", "127.0.0.1:0", "--names-only"},
	} {
		cmd := dnsCommand()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		var usage program.UsageError
		if err := cmd.ExecuteContext(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want a usage error with %q", args, err, want)
		}
	}
}

// TestDNSCommandAnswers runs the command until it has answered from its file, and has kept the rest to itself.
func TestDNSCommandAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names.yaml")
	if err := os.WriteFile(file, []byte("external.com: 240.240.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	printed, stdout := io.Pipe()
	cmd := dnsCommand()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--names", file, "--names-only"})
	cmd.SetOut(stdout)
	cmd.SetErr(io.Discard)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()

	line := make([]byte, 64)
	n, err := printed.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(string(line[:n]))
	if _, _, err := net.SplitHostPort(addr); err != nil {
		t.Fatalf("printed %q", addr)
	}
	for host, rcode := range map[string]int{"external.com.": dns.RcodeSuccess, "other.com.": dns.RcodeNameError} {
		req := new(dns.Msg)
		req.SetQuestion(host, dns.TypeA)
		if m, err := dns.Exchange(req, addr); err != nil || m.Rcode != rcode {
			t.Errorf("%s: %v, %v", host, m, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
