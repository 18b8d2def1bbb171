package secrets

import (
	"log/slog"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// sds serves the workload's secrets to Envoy. A name that is not there yet is answered when it is.
// https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
type sds struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	workload *Workload
}

// RegisterSDS adds the secret discovery service, state of the world and delta, to the server on the agent's socket.
// Whoever can connect to it gets the private key.
func (w *Workload) RegisterSDS(s grpc.ServiceRegistrar) {
	secretv3.RegisterSecretDiscoveryServiceServer(s, &sds{workload: w})
}

// StreamSecrets implements the state-of-the-world variant.
func (s *sds) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	subscription := &sotwSubscription{}
	return converse(s.workload, stream.Recv, func(r *discoveryv3.DiscoveryRequest) error {
		if err := s.check(r.GetTypeUrl(), r.GetErrorDetail()); err != nil {
			return err
		}
		subscription.request(r)
		return nil
	}, subscription.response, stream.Send)
}

// DeltaSecrets implements the incremental variant.
func (s *sds) DeltaSecrets(stream secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	subscription := newDeltaSubscription()
	return converse(s.workload, stream.Recv, func(r *discoveryv3.DeltaDiscoveryRequest) error {
		if err := s.check(r.GetTypeUrl(), r.GetErrorDetail()); err != nil {
			return err
		}
		subscription.request(r)
		return nil
	}, subscription.response, stream.Send)
}

// check refuses other types, and reports what Envoy did not like (NACK): it keeps the secret it had.
func (s *sds) check(typeURL string, refusal *status.Status) error {
	if typeURL != "" && typeURL != secretType {
		return grpcstatus.Errorf(codes.InvalidArgument, "type %q: this service has only %q", typeURL, secretType)
	}
	if refusal != nil {
		s.workload.metrics.refusals.Inc()
		s.workload.options.Log.Error("Envoy refused a secret and goes on with the one before", slog.String("reason", refusal.GetMessage()))
	}
	return nil
}
