package controlplane

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	istioapi "istio.io/api/networking/v1"
	istio "istio.io/client-go/pkg/apis/networking/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/resource"
)

const machineNode = "sidecar~192.0.2.7~vm.shop~shop.svc.cluster.local"

// asMachine gives calls a token of an account that is bound to no pod, as the cluster makes it.
func (c *inCluster) asMachine(account string) context.Context {
	c.Helper()
	c.made(c.client.CoreV1().ServiceAccounts("shop").Create(c.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}))
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}}}
	made, err := c.client.CoreV1().ServiceAccounts("shop").CreateToken(c.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return metadata.AppendToOutgoingContext(c.Context(), "authorization", "Bearer "+made.Status.Token)
}

// machine opens a stream as a machine's agent does, and waits for the first answer.
func (c *inCluster) machine(ctx context.Context) (discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, error) {
	c.Helper()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(c.secure()).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	node := &core.Node{Id: machineNode, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"AUTO_REGISTER_GROUP": structpb.NewStringValue("db")}}}
	if err := stream.Send(&discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: resource.Probe.URL()}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, err := stream.Recv()
	if err == nil && len(first.GetResources()) != 1 {
		c.Errorf("it has %d probes, want its group's", len(first.GetResources()))
	}
	return stream, err
}

// TestMachinesJoinACluster: a machine with a token of its group's account has a WorkloadEntry in the API server, is an endpoint while it is well, and
// leaves with its stream.
func TestMachinesJoinACluster(t *testing.T) {
	c := beginInCluster(t, apiserver.Start(t))
	ctx := t.Context()
	c.becomes("the API server may ask about objects", func() bool {
		v, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "sallyport-validator-"+system, metav1.GetOptions{})
		return err == nil && len(v.Webhooks[0].ClientConfig.CABundle) > 0
	})
	c.made(c.istio.NetworkingV1().WorkloadGroups("shop").Create(ctx, &istio.WorkloadGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", Annotations: map[string]string{admission.MachinesAnnotation: "192.0.2.0/24"}},
		Spec: istioapi.WorkloadGroup{
			Metadata: &istioapi.WorkloadGroup_ObjectMeta{Labels: map[string]string{"app": "db"}},
			Template: &istioapi.WorkloadEntry{ServiceAccount: "db"},
			Probe:    &istioapi.ReadinessProbe{HealthCheckMethod: &istioapi.ReadinessProbe_TcpSocket{TcpSocket: &istioapi.TCPHealthCheckConfig{Port: 5432}}},
		},
	}, metav1.CreateOptions{}))
	entry := external("db.corp.test")
	entry.Spec.Location, entry.Spec.Resolution = istioapi.ServiceEntry_MESH_INTERNAL, istioapi.ServiceEntry_STATIC
	entry.Spec.WorkloadSelector = &istioapi.WorkloadSelector{Labels: map[string]string{"app": "db"}}
	c.made(c.istio.NetworkingV1().ServiceEntries("shop").Create(ctx, entry, metav1.CreateOptions{}))

	if _, err := c.machine(c.asMachine("web")); status.Code(err) != codes.PermissionDenied && status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another account: %v", err)
	}
	by, leave := context.WithCancel(c.asMachine("db"))
	defer leave()
	var stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	c.becomes("the group is known, and the machine is let in", func() (in bool) {
		var err error
		stream, err = c.machine(by)
		return err == nil
	})
	held := func() *istio.WorkloadEntry {
		e, err := c.istio.NetworkingV1().WorkloadEntries("shop").Get(ctx, "db-192.0.2.7", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	c.becomes("its entry stands", func() bool {
		e := held()
		return e != nil && e.Annotations["istio.io/workloadController"] == "sallyport/"+system+"/one" && e.Labels["app"] == "db" && e.Spec.ServiceAccount == "db"
	})
	served := func() bool {
		_, all := c.get("/debug/xds?proxy=" + machineNode)
		return strings.Contains(all, `"192.0.2.7"`)
	}
	if served() {
		t.Error("it is an endpoint before its probe has succeeded")
	}
	if err := stream.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: health.Type}); err != nil {
		t.Fatal(err)
	}
	c.becomes("it is an endpoint", served)
	if e := held(); len(e.Status.Conditions) == 0 {
		t.Error("no condition says that it is well")
	}
	leave()
	c.becomes("its entry goes with it", func() bool { return held() == nil })
}
