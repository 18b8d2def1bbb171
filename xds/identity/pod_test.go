package identity

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
)

// bound is an Authenticator that knows the pod.
type bound struct {
	fixed
	pod Pod
}

func (b bound) AuthenticatePod(context.Context) (ID, Pod, error) { return b.id, b.pod, b.err }

// The pod that a token is bound to reaches the handler, through FirstOf too, and nobody else's does.
func TestGuardKeepsThePod(t *testing.T) {
	pod := Pod{Name: "alice-0", UID: "1"}
	for _, c := range []struct {
		name string
		all  []Authenticator
		want Pod
	}{
		{"bound", []Authenticator{bound{fixed{id: alice}, pod}}, pod},
		{"after others", []Authenticator{fixed{err: ErrNoCredentials}, bound{fixed{id: alice}, pod}}, pod},
		{"by a certificate", []Authenticator{fixed{id: alice}, bound{fixed{id: alice}, pod}}, Pod{}},
		{"of a rejected token", []Authenticator{bound{fixed{err: refused}, pod}, fixed{id: alice}}, Pod{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewGuard(FirstOf(c.all...), slog.New(slog.DiscardHandler), nil)
			_, err := g.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
				if got := PodFromContext(ctx); got != c.want {
					t.Errorf("pod %v, want %v", got, c.want)
				}
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
