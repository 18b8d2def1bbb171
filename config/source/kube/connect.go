package kube

import (
	"errors"
	"fmt"
	"runtime/debug"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Requests a second to the API server, and how many at once after a pause. Watches count once.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// Connect makes the configuration of a client: of the kubeconfig file, in the named context or in its current one; or,
// without a file, of the pod that this process runs in. It does not connect.
func Connect(kubeconfig, context string) (*rest.Config, error) {
	config, err := access(kubeconfig, context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.UserAgent = "sallyport/" + programVersion()
	return config, nil
}

func access(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig == "" {
		if context != "" {
			return nil, fmt.Errorf("context %q: there is no kubeconfig file to find it in: name one with --kubeconfig", context)
		}
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no Kubernetes to connect to: name a file with --kubeconfig; outside of a pod there is no other way")
		} else if err != nil {
			return nil, fmt.Errorf("the pod's service account: %w: mount its token (automountServiceAccountToken)", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if context != "" && raw.Contexts[context] == nil {
		return nil, fmt.Errorf("kubeconfig %s: there is no context %q: see `kubectl config get-contexts`", kubeconfig, context)
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig %s: it names no cluster: set clusters, contexts and current-context", kubeconfig)
	} else if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}

// programVersion is the module's version, as the Go tool noted it.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
