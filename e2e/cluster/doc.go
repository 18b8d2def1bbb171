// Package cluster is a real Kubernetes of one node for tests: etcd, the API server, controllers, scheduler, containerd
// with runc, kubelet, kube-proxy and CoreDNS, on this machine, as root.
//
//	make cluster          builds what is missing and brings it up, with Sallyport's images
//	go run ./e2e/cluster/cmd up|load|status|kubeconfig|logs|dns|exec|down
//	make cluster-down     leaves nothing behind
//
// It outlives the shell that started it, and the tests: Open finds it from any process. One is on a machine,
// and others of other numbers (SALLYPORT_CLUSTER).
//
// Everything runs in namespaces of its own (package node), so that nothing on the host changes but for a cable and
// a route, and ending its first process ends all of it, whatever state a crash left. From the host, the addresses of
// pods, services and the node (Network) can be reached as they are. Pods reach each other and the host; there
// is no way to any other network until a test connects one (Connect), and pods' addresses are translated nowhere: who
// is connected sees which pod it is. Packets go through the node's routing table even between pods (CNI plugin ptp,
// not bridge), without which replies behind a ClusterIP would need br_netfilter.
//
// In: programs that `make cluster-tools` builds, images of package images. Out: a kubeconfig with all rights. It
// knows nothing of Sallyport but names of images.
package cluster
