package remotesecret

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/config/source/kube/remote"
)

// MinDuration is the least that API servers take for a token.
const MinDuration = 10 * time.Minute

// secretPrefix is before the cluster's name in that of the Secret; Istio's.
const secretPrefix = "istio-remote-secret-"

// Options say which Secret is made.
type Options struct {
	Cluster   string        // its name in the mesh
	Server    string        // where the control plane reaches its API server; "" for where this process does
	Namespace string        // of the account there, and of the Secret here
	Account   string        // the ServiceAccount that is read as
	Create    bool          // make the account, its rights and its token; without it, nothing is written
	Duration  time.Duration // of a token that expires; 0 for one that is valid until its Secret is deleted
}

// Validate says what is missing or cannot be, by the flag that says it.
func (o Options) Validate() error {
	if o.Cluster == "" {
		return errors.New("--name is missing: the cluster's name in the mesh, which is clusterID in the values of its chart")
	}
	for _, part := range []struct {
		flag, value string
		wrong       []string
	}{
		{"--name", o.Cluster, validation.IsDNS1123Subdomain(secretPrefix + o.Cluster)},
		{"--namespace", o.Namespace, validation.IsDNS1123Label(o.Namespace)},
		{"--account", o.Account, validation.IsDNS1123Subdomain(o.Account)},
	} {
		if len(part.wrong) > 0 {
			return fmt.Errorf("%s %q: %s", part.flag, part.value, strings.Join(part.wrong, "; "))
		}
	}
	if o.Duration != 0 && o.Duration < MinDuration {
		return fmt.Errorf("--duration %s: must be at least %s, or 0 for a token that does not expire", o.Duration, MinDuration)
	}
	if o.Server != "" {
		return checkServer("--server", o.Server)
	}
	return nil
}

func checkServer(from, server string) error {
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s %q: must be https://HOST:PORT, which the control plane of the other cluster reaches", from, server)
	}
	return nil
}

// Make makes the Secret for the cluster that access leads to. The time is when its token expires, zero for one that does not.
func Make(ctx context.Context, access *rest.Config, o Options) (*corev1.Secret, time.Time, error) {
	cluster, err := server(access, o.Server)
	if err != nil {
		return nil, time.Time{}, err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, time.Time{}, err
	}
	token, expires, err := credentials(ctx, client, o)
	if err != nil {
		return nil, time.Time{}, err
	}
	kubeconfig, err := clientcmd.Write(api.Config{
		CurrentContext: o.Cluster,
		Clusters:       map[string]*api.Cluster{o.Cluster: cluster},
		AuthInfos:      map[string]*api.AuthInfo{o.Cluster: {Token: token}},
		Contexts:       map[string]*api.Context{o.Cluster: {Cluster: o.Cluster, AuthInfo: o.Cluster}},
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	if _, err := remote.Access(kubeconfig); err != nil {
		return nil, time.Time{}, fmt.Errorf("a control plane would not take this kubeconfig: %w", err)
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: secretPrefix + o.Cluster, Namespace: o.Namespace,
			Labels: map[string]string{"istio/multiCluster": "true"}, Annotations: map[string]string{"networking.istio.io/cluster": o.Cluster},
		},
		StringData: map[string]string{o.Cluster: string(kubeconfig)},
	}, expires, nil
}

// server is where the API server is and whom it is verified by: as this process does, unless another address is given.
func server(access *rest.Config, at string) (*api.Cluster, error) {
	c := rest.CopyConfig(access)
	if err := rest.LoadTLSFiles(c); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	switch {
	case c.Insecure:
		return nil, errors.New("kubeconfig: insecure-skip-tls-verify: the control plane verifies whom it reads; write certificate-authority-data instead")
	case len(c.CAData) == 0:
		return nil, errors.New("kubeconfig: certificate-authority-data is missing: the control plane has to know by what it verifies the API server; write the CA's certificate there")
	}
	if at == "" {
		at = c.Host
		if err := checkServer("kubeconfig: server", at); err != nil {
			return nil, err
		}
	}
	return &api.Cluster{Server: at, CertificateAuthorityData: c.CAData, TLSServerName: c.ServerName}, nil
}

// credentials are the account's, which is made before if that is asked for.
func credentials(ctx context.Context, client kubernetes.Interface, o Options) (token string, expires time.Time, err error) {
	if o.Create {
		if err := account(ctx, client, o.Namespace, o.Account); err != nil {
			return "", time.Time{}, err
		}
	}
	if o.Duration > 0 {
		return shortToken(ctx, client, o.Namespace, o.Account, o.Duration)
	}
	if o.Create {
		if err := askForToken(ctx, client, o.Namespace, o.Account); err != nil {
			return "", time.Time{}, err
		}
	}
	token, err = keptToken(ctx, client, o.Namespace, o.Account)
	return token, time.Time{}, err
}
