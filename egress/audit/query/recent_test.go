package query

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// TestRecentIsGuarded: what is asked for is bounded, and one question is answered at a time.
func TestRecentIsGuarded(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(dir, "audit"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	service, g := NewRecent(s), grpc.NewServer()
	service.Register(g)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	defer func() { g.Stop(); <-ended }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for name, q := range map[string]RecentQuestion{
		"no time":         {},
		"too long":        {Within: 25 * time.Hour},
		"many namespaces": {Within: time.Hour, Namespaces: make([]string, mostNamespaces+1)},
	} {
		if _, err := RecentInputsOf(t.Context(), conn, q); err == nil || !strings.Contains(err.Error(), "at most 24h0m0s of 1000 may be") {
			t.Errorf("%s: %v", name, err)
		}
	}
	one := RecentQuestion{Within: time.Hour, Namespaces: []string{"shop"}}
	service.busy <- struct{}{}
	if _, err := RecentInputsOf(t.Context(), conn, one); err == nil || !strings.Contains(err.Error(), "ask again") {
		t.Errorf("while another asks: %v", err)
	}
	<-service.busy
	if list, err := RecentInputsOf(t.Context(), conn, one); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	late, end := context.WithCancel(t.Context())
	end()
	if _, err := RecentInputsOf(late, conn, one); err == nil {
		t.Error("who has gone away has an answer")
	}
}
