package istioca

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// Signer is the mesh CA.
type Signer interface {
	Sign(csr []byte, id identity.ID, ttl time.Duration) ([]string, error)
	Expires() time.Time
}

// Options configure the service.
type Options struct {
	CA Signer
	// Tokens says whose the call's token is. Each certificate takes a token that is good now: a certificate alone, which
	// may have been stolen, renews nothing.
	Tokens identity.Authenticator
	// OfPod wants tokens that are bound to a pod, and so end with it.
	OfPod bool
	// Unbound says of whom tokens are good all the same that are bound to none: machines' accounts. nil: of nobody.
	Unbound func(identity.ID) bool
	// TTL is the lifetime of a certificate whose request asks for none; 0 is ca.DefaultTTL.
	TTL time.Duration
	// MaxTTL is the longest lifetime; requests for more get this. 0 is TTL: nobody gets more than the default.
	MaxTTL time.Duration
	// Impersonate decides whether a caller may have a certificate of another identity (a node's proxy for the pods
	// of its node); nil: nobody may. of is the pod that its token is bound to, if it is.
	Impersonate func(ctx context.Context, caller identity.ID, of identity.Pod, wanted identity.ID) error
	Metrics     prometheus.Registerer
	Log         *slog.Logger
}

// Service is the certificate service. Register it on a gRPC server that an identity.Guard protects.
type Service struct {
	securityv1alpha1.UnimplementedIstioCertificateServiceServer
	options Options
	metrics metrics
}

// New returns the service with its metrics registered.
func New(o Options) *Service {
	if o.TTL == 0 {
		o.TTL = ca.DefaultTTL
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = o.TTL
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{options: o, metrics: newMetrics(o.Metrics, o.CA)}
}

// Register adds the service to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	securityv1alpha1.RegisterIstioCertificateServiceServer(r, s)
}

// CreateCertificate signs the request's key for the caller's own identity.
func (s *Service) CreateCertificate(ctx context.Context, r *securityv1alpha1.IstioCertificateRequest) (*securityv1alpha1.IstioCertificateResponse, error) {
	response, err := s.create(ctx, r)
	if err != nil {
		s.metrics.failures.WithLabelValues(status.Code(err).String()).Inc()
		return nil, err
	}
	s.metrics.issued.Inc()
	return response, nil
}

func (s *Service) create(ctx context.Context, r *securityv1alpha1.IstioCertificateRequest) (*securityv1alpha1.IstioCertificateResponse, error) {
	caller, ok := identity.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "the call was not authenticated")
	}
	pod, err := s.vouch(ctx, caller)
	if err != nil {
		return nil, err
	}
	subject, err := s.subject(ctx, caller, pod, r)
	if err != nil {
		return nil, err
	}
	ttl, err := s.lifetime(r.GetValidityDuration())
	if err != nil {
		return nil, err
	}
	chain, err := s.options.CA.Sign([]byte(r.GetCsr()), subject, ttl)
	var badRequest *ca.CSRError
	switch {
	case errors.As(err, &badRequest):
		return nil, status.Error(codes.InvalidArgument, badRequest.Error())
	case err != nil:
		s.options.Log.ErrorContext(ctx, "no certificate issued", "identity", subject.String(), "error", err)
		return nil, status.Error(codes.Internal, "the mesh CA cannot sign now; its log says why")
	}
	s.options.Log.InfoContext(ctx, "certificate issued", "identity", subject.String(), "caller", caller.String(), "lifetime", ttl.String())
	return &securityv1alpha1.IstioCertificateResponse{CertChain: chain}, nil
}

// vouch wants a fresh token of the caller's.
func (s *Service) vouch(ctx context.Context, caller identity.ID) (identity.Pod, error) {
	if s.options.Tokens == nil {
		return identity.Pod{}, status.Error(codes.Unimplemented, "there is nobody here who knows tokens")
	}
	id, pod, err := identity.Authenticate(ctx, s.options.Tokens)
	switch {
	case errors.Is(err, identity.ErrNoCredentials):
		return pod, status.Error(codes.Unauthenticated, `a certificate is given for a token only, not for a certificate: send the metadata "authorization: Bearer TOKEN" (audience istio-ca)`)
	case err != nil:
		_, refusal := identity.Refusal(err)
		return pod, refusal
	case id != caller:
		return pod, status.Errorf(codes.PermissionDenied, "the token is of %s, the certificate of %s", id, caller)
	case s.options.OfPod && pod.Name == "" && (s.options.Unbound == nil || !s.options.Unbound(id)):
		return pod, status.Error(codes.PermissionDenied, "the token is bound to no pod, so that it would outlive the one it is used in: use the pod's projected token; on a machine, that of the account of a WorkloadGroup")
	}
	return pod, nil
}

// lifetime turns the requested validity (seconds, 0: none requested) into the granted one.
func (s *Service) lifetime(seconds int64) (time.Duration, error) {
	switch {
	case seconds < 0:
		return 0, status.Errorf(codes.InvalidArgument, "validity_duration %d: must not be negative", seconds)
	case seconds == 0:
		return min(s.options.TTL, s.options.MaxTTL), nil
	case seconds >= int64(s.options.MaxTTL/time.Second):
		return s.options.MaxTTL, nil
	default:
		return time.Duration(seconds) * time.Second, nil
	}
}

// impersonated is the metadata field in which a node's proxy (Istio's ztunnel) names the pod's identity it wants.
const impersonated = "ImpersonatedIdentity"

// subject is the identity to certify: the caller's own, or the one it may stand in for.
func (s *Service) subject(ctx context.Context, caller identity.ID, of identity.Pod, r *securityv1alpha1.IstioCertificateRequest) (identity.ID, error) {
	wanted := r.GetMetadata().GetFields()[impersonated].GetStringValue()
	if wanted == "" || wanted == caller.String() {
		return caller, nil
	}
	id, err := identity.ParseID(wanted)
	if err != nil {
		return identity.ID{}, status.Errorf(codes.InvalidArgument, "metadata %s: %v", impersonated, err)
	}
	if s.options.Impersonate == nil {
		return identity.ID{}, status.Errorf(codes.PermissionDenied, "%s may not have a certificate of %s", caller, id)
	}
	if err := s.options.Impersonate(ctx, caller, of, id); err != nil {
		return identity.ID{}, status.Errorf(codes.PermissionDenied, "%s may not have a certificate of %s: %v", caller, id, err)
	}
	return id, nil
}

type metrics struct {
	issued   prometheus.Counter
	failures *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, signer Signer) metrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sallyport_ca_expiry_timestamp_seconds",
		Help: "When the first certificate of the mesh CA's chain expires, in seconds since 1970.",
	}, func() float64 { return float64(signer.Expires().Unix()) })
	return metrics{
		issued: factory.NewCounter(prometheus.CounterOpts{
			Name: "sallyport_ca_certificates_issued_total",
			Help: "Workload certificates that the mesh CA signed.",
		}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_ca_requests_failed_total",
			Help: "Certificate requests that got no certificate, by gRPC code.",
		}, []string{"code"}),
	}
}
