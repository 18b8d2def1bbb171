package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube/remote"
	"github.com/sallyport/sallyport/e2e/world"
)

// nothing is an own cluster that has no objects.
type nothing struct{}

func (nothing) Findings() []admission.Finding { return nil }

func (nothing) Run(ctx context.Context, out func([]config.Change, []admission.Finding)) error {
	out(nil, nil)
	<-ctx.Done()
	return nil
}

// TestRemoteSecret: what is printed is applied as it is, a control plane reads the cluster by it, and it gives rights for nothing else.
func TestRemoteSecret(t *testing.T) {
	a := startClusterLab(t)
	text, said, code := a.run(remoteSecretCommand(), "--name", "west", "--duration", "1h")
	if code != exitDone || !strings.Contains(said, "expires at") || !strings.Contains(said, "--server") {
		t.Fatalf("exit %d: %s", code, said)
	}
	secret := &corev1.Secret{}
	if err := yaml.UnmarshalStrict([]byte(text), secret); err != nil {
		t.Fatal(err)
	}
	if secret.Name != "istio-remote-secret-west" || secret.Annotations["networking.istio.io/cluster"] != "west" {
		t.Errorf("%s", text)
	}
	a.made(a.client.CoreV1().Secrets("istio-system").Create(t.Context(), secret, metav1.CreateOptions{}))
	a.made(a.client.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "far"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want, found := config.Key{Kind: config.KindService, Namespace: "shop", Name: "far", Cluster: "west"}, make(chan struct{})
	source := &remote.Source{Own: nothing{}, Client: a.client, Namespace: "istio-system", Name: "home", Log: slog.New(slog.DiscardHandler)}
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		ended <- source.Run(ctx, func(changes []config.Change, _ []admission.Finding) {
			if slices.ContainsFunc(changes, func(c config.Change) bool { return c.Key == want && c.Object != nil }) {
				once.Do(func() { close(found) })
			}
		})
	}()
	select {
	case <-found:
	case <-ctx.Done():
		t.Error("its Service did not come")
	}
	if err := world.Poll(ctx, 10*time.Millisecond, func() error {
		if !source.Reading()["west"] {
			return errors.New("the cluster is not read")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	a.mayOnlyRead(secret.StringData["west"])
}

// mayOnlyRead asks the API server, as who the kubeconfig is, what it may.
func (a *clusterLab) mayOnlyRead(kubeconfig string) {
	a.Helper()
	access, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		a.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(access)
	for _, c := range []struct {
		verb, group, resource string
		may                   bool
	}{
		{"list", "", "pods", true}, {"watch", "discovery.k8s.io", "endpointslices", true}, {"list", "", "namespaces", true}, {"watch", "", "services", true},
		{"list", "", "secrets", false}, {"get", "", "secrets", false}, {"list", "", "configmaps", false}, {"create", "", "pods", false}, {"update", "", "services", false},
		{"create", "", "serviceaccounts/token", false}, {"list", "networking.istio.io", "serviceentries", false},
	} {
		resource, sub, _ := strings.Cut(c.resource, "/")
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(a.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "istio-system", Verb: c.verb, Group: c.group, Resource: resource, Subresource: sub}},
		}, metav1.CreateOptions{})
		if err != nil {
			a.Fatal(err)
		}
		if review.Status.Allowed != c.may {
			a.Errorf("may %s %s: %t", c.verb, c.resource, review.Status.Allowed)
		}
	}
}

// TestRemoteSecretKept: without --duration the token is that of a Secret which the cluster's token controller fills; the API server of the
// test has none, so the test is it. Without --create-account nothing is written.
func TestRemoteSecretKept(t *testing.T) {
	a := startClusterLab(t)
	_, said, code := a.run(remoteSecretCommand(), "--name", "west", "--create-account=false")
	if code != exitFailed || !strings.Contains(said, "sallyport-remote-reader-token is not there") {
		t.Errorf("exit %d: %s", code, said)
	}
	accounts, err := a.client.CoreV1().ServiceAccounts("istio-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(accounts.Items) > 0 {
		t.Errorf("%d accounts were made, %v", len(accounts.Items), err)
	}
	filled := make(chan error, 1)
	go func() { filled <- a.fillToken() }()
	for _, create := range []string{"true", "true", "false"} { // again changes nothing
		text, said, code := a.run(remoteSecretCommand(), "--name", "west", "--create-account="+create, "--server", "https://api.west.example.com:6443")
		if code != exitDone || said != "" || !strings.Contains(text, "server: https://api.west.example.com:6443") {
			t.Fatalf("--create-account=%s: exit %d: %s%s", create, code, said, text)
		}
		secret := &corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(text), secret); err != nil {
			t.Fatal(err)
		}
		if access, err := remote.Access([]byte(secret.StringData["west"])); err != nil || access.BearerToken == "" || len(access.CAData) == 0 {
			t.Errorf("%v", err)
		}
	}
	if err := <-filled; err != nil {
		t.Error(err)
	}
}

// fillToken does what the token controller does when the Secret comes.
func (a *clusterLab) fillToken() error {
	secrets := a.client.CoreV1().Secrets("istio-system")
	watch, err := secrets.Watch(a.Context(), metav1.ListOptions{FieldSelector: "metadata.name=sallyport-remote-reader-token"})
	if err != nil {
		return err
	}
	defer watch.Stop()
	secret := (<-watch.ResultChan()).Object.(*corev1.Secret)
	issued, err := a.client.CoreV1().ServiceAccounts("istio-system").CreateToken(a.Context(), secret.Annotations[corev1.ServiceAccountNameKey], &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(issued.Status.Token)}
	_, err = secrets.Update(a.Context(), secret, metav1.UpdateOptions{})
	return err
}

// TestRemoteSecretRefuses: what is missing is named, before anything is asked of a cluster.
func TestRemoteSecretRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	write := func(cluster string) {
		t.Helper()
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {" + cluster + "}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		cluster string
		args    []string
		said    string
		code    int
	}{
		{"server: 'https://192.0.2.1'", []string{"--kubeconfig", file}, "--name is missing", exitUsage},
		{"server: 'https://192.0.2.1'", []string{"--kubeconfig", file, "--name", "We st"}, `--name "We st"`, exitUsage},
		{"server: 'https://192.0.2.1'", []string{"--kubeconfig", file, "--name", "west", "--duration", "1m"}, "--duration 1m0s: must be at least 10m0s", exitUsage},
		{"server: 'https://192.0.2.1'", []string{"--kubeconfig", file, "--name", "west", "--server", "api:6443"}, `--server "api:6443"`, exitUsage},
		{"server: 'https://192.0.2.1'", []string{"--name", "west"}, "give --kubeconfig FILE", exitUsage},
		{"server: 'https://192.0.2.1'", []string{"--kubeconfig", file, "--name", "west"}, "certificate-authority-data is missing", exitFailed},
		{"server: 'https://192.0.2.1', insecure-skip-tls-verify: true", []string{"--kubeconfig", file, "--name", "west"}, "insecure-skip-tls-verify", exitFailed},
		{"server: 'https://192.0.2.1', certificate-authority: /nowhere/ca", []string{"--kubeconfig", file, "--name", "west"}, "/nowhere/ca", exitUsage},
	} {
		write(c.cluster)
		cmd := remoteSecretCommand()
		cmd.SetArgs(c.args)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.said) || exitCode(err) != c.code {
			t.Errorf("%s %v: exit %d, %v; want %d, %q", c.cluster, c.args, exitCode(err), err, c.code, c.said)
		}
	}
}
