// Package node is the machine that the test cluster runs on: this host's files, with its own process,
// network, mount, IPC and UTS namespaces. Everything of the cluster runs inside, so that its iptables rules, routes, sysctls of
// the network, mounts and processes cannot meet those of the host, and vanish together when its first process ends.
//
// In: a Spec, the programs to run and the addresses. Out: a running node, found again by Running from any process, and
// removed by Remove, whatever state a crash left it in. What namespaces do not hold is kept here too: control groups, the few
// sysctls that are the whole kernel's, and the directory.
//
// The program in init is the first process. The package imports nothing of this module.
package node
