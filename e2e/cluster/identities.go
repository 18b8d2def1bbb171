package cluster

import (
	"errors"
	"os"

	"github.com/sallyport/sallyport/e2e/cluster/pki"
)

// writeIdentities makes the certificates of the control plane and the node, and the kubeconfigs of those that are
// clients of the API server.
func writeIdentities() error {
	authority, err := pki.New("sallyport-e2e")
	if err != nil {
		return err
	}
	ca, err := authority.Pair()
	if err != nil {
		return err
	}
	errs := []error{ca.Write(in("pki"), "ca")}
	for name, holder := range map[string]pki.Holder{
		"apiserver": {Name: "kube-apiserver", Hosts: []string{
			NodeAddr.String(), apiAddr.String(), "127.0.0.1", "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		"apiserver-kubelet": {Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"kubelet":           {Name: "kubelet", Hosts: []string{NodeName, NodeAddr.String()}},
		"service-accounts":  {Name: "service-accounts"}, // its key signs tokens
	} {
		pair, err := authority.Issue(holder)
		errs = append(errs, err, pair.Write(in("pki"), name))
	}
	for path, holder := range map[string]pki.Holder{
		adminKubeconfig():                 {Name: "admin", Groups: []string{"system:masters"}},
		pkiFile("controllers.kubeconfig"): {Name: "system:kube-controller-manager"},
		pkiFile("scheduler.kubeconfig"):   {Name: "system:kube-scheduler"},
		pkiFile("kube-proxy.kubeconfig"):  {Name: "system:kube-proxy"},
		pkiFile("kubelet.kubeconfig"):     {Name: "system:node:" + NodeName, Groups: []string{"system:nodes"}},
	} {
		pair, err := authority.Issue(holder)
		errs = append(errs, err, authority.WriteKubeconfig(path, apiURL, pair))
	}
	return errors.Join(append(errs, os.Chmod(adminKubeconfig(), 0o600))...)
}
