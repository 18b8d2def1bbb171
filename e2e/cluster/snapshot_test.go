package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/node"
)

// host is what a cluster could change on this machine.
type host struct {
	Rules, Links, Routes, Mounts, Namespaces, Cgroups []string
	Sysctls                                           map[string]string
	Files                                             []string
	Processes                                         []string // that have to do with a cluster
}

func snapshot(t *testing.T) host {
	t.Helper()
	h := host{Sysctls: map[string]string{}}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		h.Rules = append(h.Rules, lines(t, save)...)
	}
	counters := regexp.MustCompile(`^#.*|\[\d+:\d+\]`)
	for i, rule := range h.Rules {
		h.Rules[i] = counters.ReplaceAllString(rule, "")
	}
	// Other tests of this machine come and go with links of their own.
	ours := func(line string) bool {
		return strings.Contains(line, node.Link) || strings.Contains(line, strings.TrimSuffix(cluster.Network.Addr().String(), "0.0")) || strings.Contains(line, "cni") || strings.Contains(line, "kube")
	}
	h.Links = keep(lines(t, "ip", "-o", "link"), ours)
	h.Routes = keep(lines(t, "ip", "route", "show", "table", "all"), ours)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	h.Mounts = keep(strings.Split(string(mounts), "\n"), func(line string) bool { return !strings.Contains(line, "/run/netns/") })
	for pattern, into := range map[string]*[]string{
		"/run/netns/cni-*": &h.Namespaces, "/sys/fs/cgroup/*/*e2e*": &h.Cgroups, "/sys/fs/cgroup/*e2e*": &h.Cgroups,
		"/var/lib/*": &h.Files, "/run/*": &h.Files, "/var/log/*": &h.Files, "/etc/cni*": &h.Files, "/opt/cni*": &h.Files,
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		*into = append(*into, found...)
	}
	slices.Sort(h.Files)
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
		"kernel/keys/root_maxbytes", "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/netfilter/nf_conntrack_max"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err == nil {
			h.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
	h.Processes = keep(lines(t, "ps", "-eo", "args"), func(line string) bool {
		return strings.Contains(line, cluster.Dir) || strings.Contains(line, "containerd-shim")
	})
	return h
}

// compare holds the machine as it is now against the snapshot.
func (h host) compare(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(h, snapshot(t)); diff != "" {
		t.Errorf("the cluster left traces on the host (-before +after):\n%s", diff)
	}
}

func lines(t *testing.T, argv ...string) []string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return strings.Split(string(out), "\n")
}

func keep(all []string, want func(string) bool) (kept []string) {
	for _, line := range all {
		if want(line) {
			kept = append(kept, line)
		}
	}
	return kept
}
