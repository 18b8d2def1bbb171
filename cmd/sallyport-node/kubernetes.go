package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/sidecar/node"
	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/sidecar/node/plugin"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// kubernetesFlags are what the agent of a Kubernetes node does beside serving pods.
type kubernetesFlags struct {
	binDir, confDir, found, hostNetwork, daemonSet string
	exempt                                         []string
}

func (k *kubernetesFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&k.binDir, "cni-bin-dir", "", "directory of the container runtime's CNI plugins, where the plugin is installed; empty: it is not")
	fs.StringVar(&k.confDir, "cni-conf-dir", "", "directory of the runtime's CNI configuration")
	fs.StringSliceVar(&k.exempt, "cni-exempt", nil, "`namespaces` whose pods start without asking the agent, beside its own and the cluster's: they are in no mesh")
	fs.StringVar(&k.found, "cni-results", "", "directory where the runtime keeps what plugins were called with (/var/lib/cni/results), by which pods are found that started before the plugin was there")
	fs.StringVar(&k.hostNetwork, "host-network", "", "the node's own network namespace, where the plugin leaves it (/var/run/netns/"+cni.NetworkName+"): by it the kubelet's connections to pods are told from others; empty: they are not")
	fs.StringVar(&k.daemonSet, "daemonset", "", "the DaemonSet that the agent is of: when it is gone, the plugin is removed")
}

// install is how the plugin is installed; nil where it is not.
func (k *kubernetesFlags) install(c agent.Config, runDir string) (*plugin.Install, error) {
	if k.binDir == "" && k.confDir == "" {
		return nil, nil
	}
	if k.binDir == "" || k.confDir == "" {
		return nil, errors.New("--cni-bin-dir and --cni-conf-dir: one needs the other")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	exempt := slices.Concat(nodeguard.SystemNamespaces, []string{c.Proxy.Namespace}, k.exempt)
	slices.Sort(exempt)
	return &plugin.Install{
		BinDir: k.binDir, ConfDir: k.confDir, Program: pluginBeside(program), Log: c.Log,
		Entry: plugin.Entry{Type: cni.Name, RunDir: runDir, Exempt: slices.Compact(exempt)},
	}, nil
}

// pluginBeside is the program that is installed as the plugin: the small one, if it is beside this one, which can do the same.
func pluginBeside(program string) string {
	small := filepath.Join(filepath.Dir(program), cni.Name)
	if _, err := os.Stat(small); err != nil {
		return program
	}
	return small
}

// How long the end of the agent may wait for the API server, and for the networks of pods.
const (
	askPatience    = 5 * time.Second
	removePatience = 10 * time.Second
)

// removed says whether the agent ends because the mesh is removed. In doubt it is not: what is closed stays closed.
func (k *kubernetesFlags) removed(c agent.Config) bool {
	if k.daemonSet == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	config, err := kube.Connect("", "")
	if err != nil {
		c.Log.Warn("whether the mesh is being removed cannot be asked", "err", err)
		return false
	}
	client, err := appsv1.NewForConfig(config)
	if err != nil {
		c.Log.Warn("whether the mesh is being removed cannot be asked", "err", err)
		return false
	}
	set, err := client.DaemonSets(c.Proxy.Namespace).Get(ctx, k.daemonSet, metav1.GetOptions{})
	gone := isGone(set.GetDeletionTimestamp(), err)
	c.Log.Info("the agent ends", "the_mesh_is_removed", gone, "err", err)
	return gone
}

// isGone reads the answer about the DaemonSet. Its account and rights go with it, mostly before the agent is told to end.
func isGone(deleted *metav1.Time, err error) bool {
	return err == nil && deleted != nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// leave has the node as it was before the mesh where that is removed. While another agent has the node, that one does so at its own end.
func (k *kubernetesFlags) leave(c agent.Config, install *plugin.Install, pods *node.Pods) error {
	if !k.removed(c) {
		return nil
	}
	if pods.Succeeded() {
		c.Log.Info("another agent has the node: the CNI plugin stays, and so do its pods")
		return nil
	}
	return remove(install, pods, c.Log)
}

// remove leaves the node as it was before the mesh.
func remove(install *plugin.Install, pods *node.Pods, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), removePatience)
	defer cancel()
	if err := install.Remove(); err != nil {
		return fmt.Errorf("the CNI plugin cannot be removed, and pods of this node will not start: take %q out of %s: %w", cni.Name, install.ConfDir, err)
	}
	log.Info("the CNI plugin is removed")
	return pods.LetOut(ctx)
}
