package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/remote"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/world"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// kubeconfigOf is what a Secret holds: all that it takes, in one text.
func kubeconfigOf(t *testing.T, access *rest.Config) []byte {
	t.Helper()
	c := rest.CopyConfig(access)
	if err := rest.LoadTLSFiles(c); err != nil {
		t.Fatal(err)
	}
	text, err := clientcmd.Write(api.Config{
		CurrentContext: "c",
		Clusters:       map[string]*api.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData, TLSServerName: c.ServerName}},
		AuthInfos:      map[string]*api.AuthInfo{"u": {Token: c.BearerToken, ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}},
		Contexts:       map[string]*api.Context{"c": {Cluster: "c", AuthInfo: "u"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSource: what another API server has comes with its cluster's name, as long as a Secret names it, and what the own one has does not
// wait for that.
func TestSource(t *testing.T) {
	own, other := apiserver.Start(t), apiserver.Start(t)
	here, there := kubernetes.NewForConfigOrDie(own), kubernetes.NewForConfigOrDie(other)
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "west", Namespace: "default", Labels: map[string]string{"istio/multiCluster": "true"}},
		Data: map[string][]byte{
			"west": kubeconfigOf(t, other), "broken": []byte("nonsense: ["), "home": kubeconfigOf(t, other),
			"refused": kubeconfigOf(t, &rest.Config{Host: other.Host, BearerToken: "expired", TLSClientConfig: rest.TLSClientConfig{CAData: other.CAData}}),
		},
	}
	create := func(client kubernetes.Interface, s *corev1.Service) {
		t.Helper()
		if _, err := client.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(there, service("far"))
	if _, err := here.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	changes := make(chan config.Change, 1000)
	ctx, stop := context.WithCancel(t.Context())
	var log lockedText
	ended := make(chan error, 1)
	source := &remote.Source{Own: kube.New(own, kube.Options{}), Client: here, Namespace: "default", Name: "home", Log: slog.New(slog.NewTextHandler(&log, nil))}
	go func() {
		ended <- source.Run(ctx, func(all []config.Change, _ []admission.Finding) {
			for _, c := range all {
				select {
				case changes <- c:
				case <-ctx.Done():
				}
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	until := func(want config.Key, gone bool) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case c := <-changes:
				if c.Key.Cluster != "" && c.Key.Cluster != "west" {
					t.Fatalf("%s came", c.Key)
				}
				if c.Key == want && (c.Object == nil) == gone {
					if !gone && c.Object.Cluster != want.Cluster {
						t.Errorf("the object of %s says cluster %q", want, c.Object.Cluster)
					}
					return
				}
			case <-limit:
				t.Fatalf("%s did not come (gone: %t)", want, gone)
			}
		}
	}
	far := config.Key{Kind: config.KindService, Namespace: "default", Name: "far", Cluster: "west"}
	until(far, false)
	eventually(t, "it is known which are read", func() bool {
		return maps.Equal(source.Reading(), map[string]bool{"west": true, "broken": false, "refused": false})
	})
	eventually(t, "the log says what of a cluster is refused", func() bool {
		return log.has("cluster=refused", "does not accept the credentials", "sallyport remote-secret")
	})
	create(there, service("later"))
	later := far
	later.Name = "later"
	until(later, false)
	create(here, service("near"))
	until(config.Key{Kind: config.KindService, Namespace: "default", Name: "near"}, false)
	if err := here.CoreV1().Secrets("default").Delete(t.Context(), "west", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(far, true)
	until(later, true)
	eventually(t, "clusters that no Secret names are none", func() bool { return len(source.Reading()) == 0 })
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, func() error {
		if !f() {
			return errors.New("not yet: " + what)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// lockedText is a log that may be read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text []byte
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// has says whether one line has all the words.
func (l *lockedText) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(l.text)) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// TestAccess: a kubeconfig that would run a program, read a file or trust anybody is refused, and said where.
func TestAccess(t *testing.T) {
	const form = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '%s'%s}}]\nusers: [{name: u, user: {%s}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
	for _, c := range []struct{ server, cluster, user, said string }{
		{"https://127.0.0.1:1", "", "token: t", ""},
		{"https://127.0.0.1:1", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, interactiveMode: Never}", "exec"},
		{"https://127.0.0.1:1", "", "auth-provider: {name: oidc}", "auth-provider"},
		{"https://127.0.0.1:1", "", "tokenFile: /etc/passwd", "tokenFile"},
		{"https://127.0.0.1:1", "", "client-certificate: /a, client-key: /b", "client-certificate"},
		{"https://127.0.0.1:1", ", certificate-authority: /etc/ca", "token: t", "certificate-authority"},
		{"https://127.0.0.1:1", ", insecure-skip-tls-verify: true", "token: t", "insecure-skip-tls-verify"},
		{"http://127.0.0.1:1", "", "token: t", "cluster.server"},
		{"127.0.0.1:1", "", "token: t", "cluster.server"},
	} {
		text := fmt.Sprintf(form, c.server, c.cluster, c.user)
		_, err := remote.Access([]byte(text))
		if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s %s: %v", c.cluster, c.user, err)
		}
	}
}
