package cluster

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/sallyport/sallyport/e2e/tools"
)

// programs are the paths of what runs on the node or speaks to it.
type programs map[string]string

// findPrograms finds all of them, or says all that is missing.
func findPrograms() (programs, error) {
	p := programs{}
	var errs []error
	for _, c := range []struct{ tool, program string }{
		{"kubernetes", "kube-apiserver"}, {"kubernetes", "kube-controller-manager"}, {"kubernetes", "kube-scheduler"},
		{"kubernetes", "kubelet"}, {"kubernetes", "kube-proxy"}, {"kubernetes", "kubectl"},
		{"coredns", "coredns"}, {"helm", "helm"},
	} {
		path, err := tools.Cached(c.tool, c.program)
		p[c.program] = path
		errs = append(errs, err)
	}
	for _, name := range []string{"etcd", "containerd", "ctr", "runc", "iptables", "conntrack", "nsenter"} {
		path, err := look(name)
		p[name] = path
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}

func look(name string) (string, error) {
	for _, candidate := range []string{name, filepath.Join("/usr/sbin", name), filepath.Join("/sbin", name)} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on this machine: run `make cluster-tools` as root", name)
}
