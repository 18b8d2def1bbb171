package identity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// fixed is an Authenticator with one answer.
type fixed struct {
	id  ID
	err error
}

func (f fixed) Authenticate(context.Context) (ID, error) { return f.id, f.err }

var (
	alice    = ID{"cluster.local", "a", "alice"}
	bob      = ID{"cluster.local", "b", "bob"}
	refused  = &Rejected{Credential: "token", Reason: "it expired"}
	refused2 = &Rejected{Credential: "client certificate", Reason: "it is a CA's"}
	errAway  = errors.New("dial 10.0.0.1: the token reviewer is away")
)

func TestFirstOf(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []Authenticator
		id   ID
		err  string
	}{
		{"nobody asked", nil, ID{}, "no credentials"},
		{"none", []Authenticator{fixed{err: ErrNoCredentials}}, ID{}, "no credentials"},
		{"the first wins", []Authenticator{fixed{id: alice}, fixed{id: bob}}, alice, ""},
		{"the second when the first has none", []Authenticator{fixed{err: ErrNoCredentials}, fixed{id: bob}}, bob, ""},
		{"the second when the first is rejected", []Authenticator{fixed{err: refused}, fixed{id: bob}}, bob, ""},
		{"rejected", []Authenticator{fixed{err: ErrNoCredentials}, fixed{err: refused}}, ID{}, "token rejected: it expired"},
		{"both rejected", []Authenticator{fixed{err: refused}, fixed{err: refused2}}, ID{}, "token and client certificate rejected: it expired; it is a CA's"},
		{"undecided counts more than rejected", []Authenticator{fixed{err: refused2}, fixed{err: errAway}}, ID{}, "away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, err := FirstOf(c.all...).Authenticate(t.Context())
			if id != c.id || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("Authenticate = %v, %v; want %v, %q", id, err, c.id, c.err)
			}
		})
	}
}

func TestBearerToken(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		token  string
		err    string
	}{
		{"none", nil, "", "no credentials"},
		{"good", []string{"Bearer abc"}, "abc", ""},
		{"any case", []string{"bearer abc"}, "abc", ""},
		{"two", []string{"Bearer abc", "Bearer def"}, "", "2 authorization headers"},
		{"basic", []string{"Basic abc"}, "", "does not begin"},
		{"bare", []string{"abc"}, "", "does not begin"},
		{"empty", []string{"Bearer "}, "", "empty"},
		{"huge", []string{"Bearer " + strings.Repeat("a", maxTokenLength+1)}, "", "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"authorization": c.header})
			token, err := BearerToken(ctx)
			if token != c.token || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("BearerToken = %q, %v; want %q, %q", token, err, c.token, c.err)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	for _, c := range []struct {
		name          string
		authenticator fixed
		code          codes.Code
		told, result  string
	}{
		{"accepted", fixed{id: alice}, codes.OK, "", "accepted"},
		{"none", fixed{err: ErrNoCredentials}, codes.Unauthenticated, "authorization: Bearer TOKEN", "none"},
		{"rejected", fixed{err: refused}, codes.Unauthenticated, "it expired", "rejected"},
		{"undecided", fixed{err: errAway}, codes.Unavailable, "try again", "undecided"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			g := NewGuard(c.authenticator, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
			ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer s3cr3t"))
			ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}})

			var reached ID
			_, unaryErr := g.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, func(ctx context.Context, _ any) (any, error) {
				reached, _ = FromContext(ctx)
				return nil, nil
			})
			streamErr := g.Stream(nil, onlyContext{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/x/Z"}, func(_ any, s grpc.ServerStream) error {
				if id, _ := FromContext(s.Context()); id != reached {
					t.Errorf("stream of %v, call of %v", id, reached)
				}
				return nil
			})
			for _, err := range []error{unaryErr, streamErr} {
				if status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.told) {
					t.Errorf("error %v, want %s with %q", err, c.code, c.told)
				}
				if err != nil && strings.Contains(err.Error(), "10.0.0.1") {
					t.Errorf("the caller is told of the inside: %v", err)
				}
			}
			if reached != c.authenticator.id {
				t.Errorf("the handler saw %v", reached)
			}
			var counted dto.Metric
			if err := g.calls.WithLabelValues(c.result).Write(&counted); err != nil || counted.GetCounter().GetValue() != 2 {
				t.Errorf("%s counted %v, want 2", c.result, &counted)
			}
			if strings.Contains(log.String(), "s3cr3t") {
				t.Errorf("token in the log: %s", &log)
			}
			if c.code != codes.OK && !strings.Contains(log.String(), "192.0.2.1:4711") {
				t.Errorf("the log does not name the peer: %s", &log)
			}
		})
	}
}

type onlyContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (o onlyContext) Context() context.Context { return o.ctx }

func TestFromContextOfNobody(t *testing.T) {
	if id, ok := FromContext(t.Context()); ok {
		t.Errorf("FromContext = %v", id)
	}
}
