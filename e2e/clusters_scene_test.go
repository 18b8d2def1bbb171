package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/cluster/pki"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

const systemNamespace = "istio-system"

// clustersPatience is how long anything between clusters may take: who reads an API server that was away waits longer from one try to the next, and
// one that came back, on a busy machine, does not answer all of them at once.
const clustersPatience = 4 * time.Minute

// member is one cluster of a mesh of several: a real API server, and a controller on a host of its own, which reads it and the others.
type member struct {
	*testing.T
	ctx           context.Context
	scene         *story.Scene
	name, network string
	host          *world.Host // the controller's
	address       netip.Addr  // likewise
	api           *apiserver.Server
	at            atomic.Pointer[string] // where the API server listens
	controller    *world.Process
}

// newMember starts the cluster's API server and makes what there is before a control plane; the CA is below the mesh's root.
func newMember(ctx context.Context, t *testing.T, scene *story.Scene, root *pki.Authority, name string, host *world.Host, address netip.Addr) *member {
	t.Helper()
	c := &member{T: t, ctx: ctx, scene: scene, name: name, network: name + "-net", host: host, address: address, api: apiserver.StartWith(t, apiserver.Options{})}
	c.listening()
	c.namespace(systemNamespace, map[string]string{"topology.istio.io/network": c.network})
	c.namespace("shop", nil)
	c.made(c.client().CoreV1().Secrets(systemNamespace).Create(c.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cacerts"}, Data: cacertsBelow(t, root, name)}, metav1.CreateOptions{}))
	return c
}

// listening notes where the API server listens.
func (c *member) listening() {
	at := strings.TrimPrefix(c.api.Config.Host, "https://")
	c.at.Store(&at)
}

func (c *member) client() kubernetes.Interface { return kubernetes.NewForConfigOrDie(c.api.Config) }

func (c *member) made(_ any, err error) {
	c.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.Fatalf("cluster %s: %v", c.name, err)
	}
}

func (c *member) namespace(name string, labels map[string]string) {
	c.Helper()
	c.made(c.client().CoreV1().Namespaces().Create(c.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}))
}

// opened lets programs on a host reach the API server at a port of their own, wherever it listens now.
func (c *member) opened(on *world.Host, port uint16) (url string) {
	c.Helper()
	l, err := on.Listen(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	if err != nil {
		c.Fatal(err)
	}
	passOn(c.T, l, func() string { return *c.at.Load() })
	return "https://" + l.Addr().String()
}

// passOn connects whoever comes to a listener with the address, until the test ends.
func passOn(t *testing.T, l net.Listener, to func() string) {
	var open sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); _ = l.Close(); open.Wait() })
	open.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer func() { _ = in.Close() }()
				out, err := (&net.Dialer{}).DialContext(ctx, "tcp", to())
				if err != nil {
					return
				}
				defer context.AfterFunc(ctx, func() { _ = in.Close(); _ = out.Close() })()
				open.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
				_, _ = io.Copy(in, out)
				_ = out.Close()
			})
		}
	})
}

// begin starts the controller.
func (c *member) begin() {
	c.Helper()
	url := c.opened(c.host, 6443)
	dir, err := c.scene.Run.MkdirOwned("plane-"+c.name, world.ControlUID)
	if err != nil {
		c.Fatal(err)
	}
	kubeconfig, settings := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "mesh.yaml")
	access, err := clientcmd.Write(api.Config{
		CurrentContext: c.name,
		Clusters:       map[string]*api.Cluster{c.name: {Server: url, CertificateAuthorityData: c.api.Config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{c.name: {ClientCertificateData: c.api.Config.CertData, ClientKeyData: c.api.Config.KeyData}},
		Contexts:       map[string]*api.Context{c.name: {Cluster: c.name, AuthInfo: c.name}},
	})
	if err != nil {
		c.Fatal(err)
	}
	for path, text := range map[string][]byte{kubeconfig: access, settings: fmt.Appendf(nil, "sallyport: {cluster: %s}\n", c.name)} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			c.Fatal(err)
		}
	}
	c.controller, err = c.host.Start("controller-"+c.name, world.ControlUID, c.scene.Programs.Sallyport, "controller",
		"--kubeconfig", kubeconfig, "--mesh-config", settings, "--data", filepath.Join(dir, "data"), "--audit=false", "--remote-clusters",
		"--secure-xds-addr", c.Address().String(), "--host", c.address.String(), "--admin-addr", "127.0.0.1:15014", "--webhook-addr", "", "--xds-addr", "")
	if err != nil {
		c.Fatal(err)
	}
	c.becomes("its controller is ready", func() error {
		if err := c.controller.Running(); err != nil {
			return err
		}
		_, err := c.ask("/readyz")
		return err
	})
}

// ask asks the controller at its administration port.
func (c *member) ask(path string) (string, error) {
	r, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "http://127.0.0.1:15014"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.host.HTTPClient().Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return string(text), err
}

// becomes waits until f is content.
func (c *member) becomes(what string, f func() error) {
	c.Helper()
	if err := world.Within(c.ctx, clustersPatience, f); err != nil {
		c.Fatalf("cluster %s: %s: %v", c.name, what, err)
	}
}

// reads waits until the controller says that it reads another cluster, or that it does not.
func (c *member) reads(other *member, does bool) {
	c.Helper()
	want := fmt.Sprintf("sallyport_remote_cluster_read{cluster=%q} %d", other.name, map[bool]int{true: 1}[does])
	c.becomes("its metrics have "+want, func() error {
		text, err := c.ask("/metrics")
		if err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("no %s", want)
		}
		return err
	})
}

// said waits until the controller's log has a line with all the words.
func (c *member) said(words ...string) {
	c.Helper()
	c.becomes(fmt.Sprintf("its log says %q", words), func() error {
		text, err := os.ReadFile(c.controller.Log)
		if err != nil {
			return err
		}
	lines:
		for line := range strings.Lines(string(text)) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			return nil
		}
		return fmt.Errorf("%s does not", c.controller.Log)
	})
}

// Address is where agents come to.
func (c *member) Address() netip.AddrPort { return netip.AddrPortFrom(c.address, 15012) }

// Token asks the API server for a pod's token.
func (c *member) Token(ctx context.Context, ns, account, pod string) (string, error) {
	token, err := c.client().CoreV1().ServiceAccounts(ns).CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{"istio-ca"}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// TrustBundle reads what the control plane leaves in every namespace.
func (c *member) TrustBundle(ctx context.Context) (bundle []byte, err error) {
	err = world.Within(ctx, clustersPatience, func() error {
		m, err := c.client().CoreV1().ConfigMaps("shop").Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
		if err != nil {
			return err
		}
		bundle = []byte(m.Data["root-cert.pem"])
		return nil
	})
	return bundle, err
}

// service makes a Service without a selector's controller: its endpoints are what the test writes.
func (c *member) service(ns, name string, labels map[string]string, address string, outside []string, port corev1.ServicePort) {
	c.Helper()
	c.made(c.client().CoreV1().Services(ns).Create(c.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{ClusterIP: address, ExternalIPs: outside, Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{port}},
	}, metav1.CreateOptions{}))
}

// endpoint is a pod as a slice says it.
func endpoint(ns, pod string, at netip.Addr, terminating bool) discoveryv1.Endpoint {
	ready, serving := !terminating, true
	return discoveryv1.Endpoint{
		Addresses: []string{at.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: pod},
	}
}

// endpoints writes the slice of a Service.
func (c *member) endpoints(ns, service string, port corev1.ServicePort, list ...discoveryv1.Endpoint) {
	c.Helper()
	number := port.TargetPort.IntVal
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: list, Ports: []discoveryv1.EndpointPort{{Name: &port.Name, Port: &number}},
	}
	all := c.client().DiscoveryV1().EndpointSlices(ns)
	_, err := all.Create(c.ctx, slice, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(c.ctx, slice, metav1.UpdateOptions{})
	}
	c.made(nil, err)
}

// pod makes a pod as its node would show it, and starts its proxy.
func (c *member) pod(role, ns, name, account string, at netip.Addr, labels map[string]string, prepare ...func(*world.Host)) *story.Pod {
	c.Helper()
	host, err := c.scene.World.AddPod(name, at)
	if err != nil {
		c.Fatal(err)
	}
	for _, f := range prepare {
		f(host)
	}
	c.made(c.client().CoreV1().ServiceAccounts(ns).Create(c.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{ServiceAccountName: account, NodeName: "node-of-" + c.name, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	c.made(c.client().CoreV1().Pods(ns).Create(c.ctx, p, metav1.CreateOptions{}))
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: at.String(), PodIPs: []corev1.PodIP{{IP: at.String()}}}
	c.made(c.client().CoreV1().Pods(ns).UpdateStatus(c.ctx, p, metav1.UpdateOptions{}))
	var given []string
	for k, v := range labels {
		given = append(given, k+"="+v)
	}
	ctx, cancel := context.WithTimeout(c.ctx, sceneLimit)
	defer cancel()
	pod, err := c.scene.AddPlaced(ctx, story.Placed{Plane: c, Host: host, Address: at, Role: role, Name: name, Namespace: ns, Account: account, Labels: given, Flags: []string{"--cluster-id", c.name}})
	if err != nil {
		c.Fatal(err)
	}
	return pod
}

// told applies the Secret by which this cluster reads another, as the operator's command prints it.
func (c *member) told(other *member) {
	c.Helper()
	out, err := c.scene.Run.Command(c.ctx, c.scene.Programs.Sallyport, "remote-secret", "--kubeconfig", other.api.Kubeconfig, "--name", other.name,
		"--server", "https://127.0.0.1:6444", "--duration", "1h").Output()
	if err != nil {
		c.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := yaml.Unmarshal(out, secret); err != nil {
		c.Fatal(err)
	}
	secrets := c.client().CoreV1().Secrets(systemNamespace)
	if _, err = secrets.Create(c.ctx, secret, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(c.ctx, secret, metav1.UpdateOptions{})
	}
	c.made(nil, err)
}

// istio makes an object of Istio's.
func (c *member) istio(resource, ns, text string) {
	c.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		c.Fatal(err)
	}
	of := dynamic.NewForConfigOrDie(c.api.Config).Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: resource})
	c.made(of.Namespace(ns).Create(c.ctx, object, metav1.CreateOptions{}))
}

// cacertsBelow is what a Secret cacerts of a cluster holds: an intermediate CA of its own, below the mesh's one root.
func cacertsBelow(t *testing.T, root *pki.Authority, cluster string) map[string][]byte {
	t.Helper()
	ca, err := root.Below("intermediate of " + cluster)
	if err != nil {
		t.Fatal(err)
	}
	own, err := ca.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"ca-cert.pem": own.Cert, "ca-key.pem": own.Key, "root-cert.pem": root.Certificate(), "cert-chain.pem": slices.Concat(own.Cert, root.Certificate()),
	}
}
