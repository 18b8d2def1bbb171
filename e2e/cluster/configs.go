package cluster

import (
	"bytes"
	"embed"
	"errors"
	"os"
	"path/filepath"
	"text/template"

	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/cluster/node"
)

//go:embed manifests
var manifests embed.FS

// values are what the templates in manifests may use.
type values struct {
	Dir, Socket, State, PauseImage, CoreDNSImage, Cgroup string
	PodNetwork, DNSAddr, Corefile                        string
}

func newValues() values {
	return values{
		Dir: Dir, Socket: containerdSocket(), State: containerdState, Cgroup: node.Cgroup,
		PauseImage: images.Ref(images.Pause), CoreDNSImage: images.Ref(images.CoreDNS),
		PodNetwork: PodNetwork.String(), DNSAddr: DNSAddr.String(),
	}
}

// render fills in a template of manifests.
func render(name string, v values) ([]byte, error) {
	t, err := template.ParseFS(manifests, "manifests/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, v)
	return out.Bytes(), err
}

// writeConfigs writes what containerd, the CNI plugins and the kubelet read.
func writeConfigs() error {
	errs := []error{os.MkdirAll(CNIConfDir, 0o755), linkPlugins()}
	for name, path := range map[string]string{
		"containerd.toml": in("containerd.toml"), "kubelet.yaml": in("kubelet.yaml"), "cni.conflist": cniFile,
	} {
		content, err := render(name, newValues())
		errs = append(errs, err, os.WriteFile(path, content, 0o644))
	}
	// The node has no name server of its own; pods with dnsPolicy Default, such as CoreDNS, get none either.
	return errors.Join(append(errs, os.WriteFile(in("resolv.conf"), nil, 0o644))...)
}

// cniFile is the configuration of the pods' network.
var cniFile = filepath.Join(CNIConfDir, "10-e2e.conflist")

// RestoreCNI takes out of the CNI configuration what somebody added, and left when it died.
func RestoreCNI() error {
	content, err := render("cni.conflist", newValues())
	return errors.Join(err, os.WriteFile(cniFile, content, 0o644))
}

// systemPlugins is where Debian has CNI plugins.
const systemPlugins = "/usr/lib/cni"

func linkPlugins() error {
	plugins, err := os.ReadDir(systemPlugins)
	errs := []error{err, os.MkdirAll(CNIBinDir, 0o755)}
	for _, p := range plugins {
		errs = append(errs, os.Symlink(filepath.Join(systemPlugins, p.Name()), filepath.Join(CNIBinDir, p.Name())))
	}
	return errors.Join(errs...)
}
