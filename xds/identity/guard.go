package identity

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/config/pacedlog"
)

// Guard stands before every call of a gRPC server: it authenticates the caller, puts the ID into the call's
// context, and ends the call as Unauthenticated otherwise. Install both Unary and Stream.
type Guard struct {
	authenticator Authenticator
	log           *slog.Logger // of refusals
	calls         *prometheus.CounterVec
}

// NewGuard returns a Guard that counts its decisions in reg; nil counts for nobody.
func NewGuard(a Authenticator, log *slog.Logger, reg prometheus.Registerer) *Guard {
	return &Guard{
		authenticator: a,
		log:           pacedlog.New(log, 500),
		calls: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_authentications_total",
			Help: "Calls to the secure port by the outcome of authentication: accepted, none (no credentials), rejected, undecided.",
		}, []string{"result"}),
	}
}

// Unary is a grpc.UnaryServerInterceptor.
func (g *Guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, err := g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream is a grpc.StreamServerInterceptor.
func (g *Guard) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := g.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return next(srv, authenticatedStream{ServerStream: stream, ctx: ctx})
}

func (g *Guard) admit(ctx context.Context, method string) (context.Context, error) {
	id, pod, err := Authenticate(ctx, g.authenticator)
	if err == nil {
		g.calls.WithLabelValues("accepted").Inc()
		return NewPodContext(NewContext(ctx, id), pod), nil
	}
	result, refusal := Refusal(err)
	g.calls.WithLabelValues(result).Inc()
	from := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from = p.Addr.String()
	}
	g.log.WarnContext(ctx, "call not authenticated", "method", method, "peer", from, "reason", err)
	return nil, refusal
}

// Refusal maps an Authenticator's error to the metric's label and to what the caller is told. Only what a caller can
// mend is told: an undecided authentication is Unavailable, so that agents try again.
func Refusal(err error) (result string, refusal error) {
	var rejected *Rejected
	switch {
	case errors.Is(err, ErrNoCredentials):
		return "none", status.Error(codes.Unauthenticated,
			`no credentials: send the metadata "authorization: Bearer TOKEN" (audience istio-ca) or connect with a client certificate of this mesh`)
	case errors.As(err, &rejected):
		return "rejected", status.Error(codes.Unauthenticated, rejected.Error())
	default:
		return "undecided", status.Error(codes.Unavailable, "cannot authenticate now, try again")
	}
}

// authenticatedStream is a stream whose context holds the caller.
type authenticatedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s authenticatedStream) Context() context.Context { return s.ctx }
