package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/source/kube"
)

// clusterFlags say which Kubernetes cluster is meant, and where the control plane is in it.
type clusterFlags struct {
	kubeconfig, context, namespace string
}

func (c *clusterFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file of a cluster (in a pod: the pod's own cluster)")
	fs.StringVar(&c.context, "context", "", "context in the kubeconfig file (default: its current one); alone, in $KUBECONFIG or ~/.kube/config")
	fs.StringVar(&c.namespace, "system-namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "istio-system"), "namespace of the control plane (default $POD_NAMESPACE)")
}

// given says whether a cluster is asked for.
func (c *clusterFlags) given() bool { return c.kubeconfig != "" || c.context != "" }

// meant says whether a cluster is asked for, or nothing else can be meant: this is a pod of one.
func (c *clusterFlags) meant() bool { return c.given() || os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// connect makes the configuration of clients. $KUBECONFIG counts where a context is named without a file.
func (c *clusterFlags) connect() (*rest.Config, error) {
	file := c.kubeconfig
	if file == "" && c.context != "" {
		file = c.fileOfContext()
	}
	config, err := kube.Connect(file, c.context)
	if err != nil {
		return nil, program.Misuse(err)
	}
	config.UserAgent = "sallyport/" + version
	return config, nil
}

// fileOfContext is the first file that has the context, of those that kubectl would read.
func (c *clusterFlags) fileOfContext() string {
	files := clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence()
	for _, file := range files {
		if read, err := clientcmd.LoadFromFile(file); err == nil && read.Contexts[c.context] != nil {
			return file
		}
	}
	return cmp.Or(append(files, clientcmd.RecommendedHomeFile)...) // for the error
}

// replica is a name for this process among the replicas: its pod's.
func (c *clusterFlags) replica() string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
