package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/whole"
	"github.com/sallyport/sallyport/e2e/world"
)

// wholePort is where servers take exchanges behind requests.
const wholePort = 9686

// downloadsByHTTP are the kinds of requests whose connection ends with the answer.
var downloadsByHTTP = []string{"websocket", "http/1.0"}

// requestWay is a way by which requests get to a server, whoever is between.
type requestWay struct {
	server    *whole.Server
	authority string
	dial      func(context.Context) (net.Conn, error)
}

// serveWhole takes exchanges behind requests at an address of a host.
func serveWhole(t *testing.T, at *world.Host, addr netip.AddrPort) *whole.Server {
	t.Helper()
	l, err := at.Listen(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	server, done := whole.NewServer(), make(chan struct{})
	go func() { defer close(done); server.ServeHTTP1(l) }()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return server
}

// exchange does one, as a WebSocket or by HTTP/1.0.
func (w requestWay) exchange(ctx context.Context, kind string, e whole.Exchange) (client, server whole.Account) {
	account := w.server.Account(e.ID)
	c, err := w.dial(ctx)
	if err != nil {
		return whole.Account{Err: err}, whole.Account{Err: err}
	}
	if err := c.SetDeadline(time.Now().Add(exchangeWithin)); err != nil {
		return whole.Account{Err: err}, whole.Account{Err: err}
	}
	if kind == "websocket" {
		client = whole.Upgrade(c, "/whole", w.authority, e)
	} else {
		client = whole.Get10(c, "/whole", w.authority, e)
	}
	if client.Err != nil {
		return client, whole.Account{}
	}
	return client, ended(account)
}

// holds tries every exchange on it: all bytes arrive, however slowly they are read, and where the server ends, its client hears of it at once.
func (w requestWay) holds(t *testing.T) {
	var group errgroup.Group
	for _, kind := range downloadsByHTTP {
		open := whole.Exchange{Shape: whole.Download, Size: 1}
		if err := world.Within(t.Context(), time.Minute, func() error {
			open.ID += "+"
			client, _ := w.exchange(t.Context(), kind, open)
			return client.Err
		}); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		tried := append(exchangesOf(kind), whole.Exchange{Shape: whole.Download, Size: creepSize, Rest: whole.Creeps})
		for i, e := range tried {
			e.ID = fmt.Sprintf("%s-%d", strings.ReplaceAll(kind, "/", "-"), i)
			group.Go(func() error {
				client, server := w.exchange(t.Context(), kind, e)
				if text := judged(kind, e, client, server); text != "" {
					return fmt.Errorf("%s, %s: %s", kind, e, text)
				}
				return nil
			})
		}
		group.Go(func() error {
			err := promptly(t.Context(), func(id string) whole.Account {
				client, _ := w.exchange(t.Context(), kind, whole.Exchange{ID: kind[:4] + id, Shape: whole.Download, Size: 1})
				return client
			})
			if err != nil {
				err = fmt.Errorf("%s: %w", kind, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// withinSecond is how long after the last byte the end may come: less than the second for which an Envoy may be waiting.
const withinSecond = 700 * time.Millisecond

// promptly holds that a download's end comes with its last byte. It takes the fastest of some: a timer is never early, and a machine that has much
// else to do is late by chance.
func promptly(ctx context.Context, download func(id string) whole.Account) error {
	tries := 0
	return world.Within(ctx, time.Minute, func() error {
		tries++
		client := download(fmt.Sprint("-prompt-", tries))
		if client.Err == nil && client.Late > withinSecond {
			client.Err = errors.New("the end came " + client.Late.String() + " after the last byte")
		}
		return client.Err
	})
}
