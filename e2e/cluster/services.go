package cluster

import (
	"net"
	"strconv"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

// path is the programs' own: they call iptables, conntrack, mount, runc.
const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// services are the programs of the node. They have its network for themselves and so their usual ports; only the API
// server and the kubelet listen on other addresses than loopback.
func services(p programs) []node.Service {
	const etcd = "http://127.0.0.1:2379"
	api := "tcp:" + net.JoinHostPort(NodeAddr.String(), "6443")
	all := []node.Service{
		{Name: "etcd", Argv: []string{
			p["etcd"], "--name=e2e", "--data-dir=" + in("etcd"), "--unsafe-no-fsync", "--logger=zap", "--log-level=warn",
			"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
		}},
		{Name: "kube-apiserver", After: "tcp:127.0.0.1:2379", Argv: []string{
			p["kube-apiserver"], "--etcd-servers=" + etcd,
			"--bind-address=" + NodeAddr.String(), "--advertise-address=" + NodeAddr.String(), "--secure-port=6443",
			"--tls-cert-file=" + pkiFile("apiserver.crt"), "--tls-private-key-file=" + pkiFile("apiserver.key"),
			"--client-ca-file=" + pkiFile("ca.crt"), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--kubelet-client-certificate=" + pkiFile("apiserver-kubelet.crt"), "--kubelet-client-key=" + pkiFile("apiserver-kubelet.key"),
			"--kubelet-certificate-authority=" + pkiFile("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + pkiFile("service-accounts.key"), "--service-account-signing-key-file=" + pkiFile("service-accounts.key"),
			"--service-cluster-ip-range=" + Services.String(), "--allow-privileged",
		}},
		{Name: "kube-controller-manager", After: api, Argv: []string{
			p["kube-controller-manager"], "--kubeconfig=" + pkiFile("controllers.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
			"--use-service-account-credentials", "--service-account-private-key-file=" + pkiFile("service-accounts.key"), "--root-ca-file=" + pkiFile("ca.crt"),
			"--cluster-signing-cert-file=" + pkiFile("ca.crt"), "--cluster-signing-key-file=" + pkiFile("ca.key"),
			"--allocate-node-cidrs", "--cluster-cidr=" + PodNetwork.String(), "--node-cidr-mask-size=" + strconv.Itoa(PodNetwork.Bits()),
			"--service-cluster-ip-range=" + Services.String(),
		}},
		{Name: "kube-scheduler", After: api, Argv: []string{
			p["kube-scheduler"], "--kubeconfig=" + pkiFile("scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
		}},
		{Name: "containerd", Argv: []string{p["containerd"], "--config=" + in("containerd.toml")}},
		{Name: "kubelet", After: "unix:" + containerdSocket(), Argv: []string{
			p["kubelet"], "--config=" + in("kubelet.yaml"), "--kubeconfig=" + pkiFile("kubelet.kubeconfig"), "--root-dir=" + in("kubelet"),
			"--hostname-override=" + NodeName, "--node-ip=" + NodeAddr.String(), "--v=1",
		}},
		{Name: "kube-proxy", After: api, Argv: []string{
			p["kube-proxy"], "--kubeconfig=" + pkiFile("kube-proxy.kubeconfig"), "--hostname-override=" + NodeName,
			"--proxy-mode=iptables", "--cluster-cidr=" + PodNetwork.String(), "--iptables-localhost-nodeports=false",
			// What it would set belongs to the whole kernel, and a namespace may not.
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		}},
	}
	for i := range all {
		all[i].Env = []string{path}
	}
	return all
}
