package incluster

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// finding is what `sallyport verify -o json` says of one attempt.
type finding struct{ Way, Tried, Verdict, Taken, Why, Fix string }

// verifyOpen: in a pod of a closed mesh all that goes through a proxy is closed; what no proxy carries is found to be open, with
// what closes it.
func (s *stage) verifyOpen() {
	s.Helper()
	found, code := s.verify("app")
	for _, f := range found {
		open := f.Way == "udp" || f.Way == "icmp"
		if (f.Verdict == "open") != open || open && !strings.Contains(f.Fix, "nodeGuard.enabled=true") || f.Verdict == "error" || f.Verdict == "skipped" && f.Way != "ipv6" {
			s.Errorf("without the guard: %+v", f)
		}
	}
	if code != 1 || len(found) < 18 {
		s.Errorf("without the guard: exit code %d, %d findings", code, len(found))
	}
	found, code = s.verify("cheat", "--user", "1337", "--only", "address")
	if code != 1 || slices.ContainsFunc(found, func(f finding) bool { return f.Verdict != "open" || !strings.Contains(f.Fix, "1337") }) {
		s.Errorf("as the proxy's user, without the guard: exit code %d, %+v", code, found)
	}
}

// verifyClosed: with the guard nothing is open, and it is named where it is what holds.
func (s *stage) verifyClosed() {
	s.Helper()
	found, code := s.verify("app")
	for _, f := range found {
		if f.Verdict != "closed" && f.Way != "ipv6" || (f.Way == "udp" || f.Way == "icmp") && !strings.Contains(f.Why, "DaemonSet "+system+"/sallyport-node") {
			s.Errorf("with the guard: %+v", f)
		}
	}
	if code != 0 {
		s.Errorf("with the guard: exit code %d", code)
	}
	if found, code = s.verify("cheat", "--user", "1337", "--only", "address"); code != 0 {
		s.Errorf("as the proxy's user, with the guard: exit code %d, %+v", code, found)
	}
}

// verify tries the ways out of a deployment's pod, as root, who may ping.
func (s *stage) verify(deployment string, more ...string) ([]finding, int) {
	s.Helper()
	program, err := filepath.Abs("../../bin/sallyport")
	s.must(err)
	args := []string{
		"verify", "--kubeconfig", s.Kubeconfig, "--from", shop + "/" + deployment, "-o", "json", "--user", "0", "--wait", "5s",
		"--target", nobody, "--target-ip", outsideAddrs[2].String(), "--resolver", nameServer.Addr().String(), "--doh", "https://" + nobody + "/dns-query",
		"--tunnel", "tunnel.test", "--registered", external, "--pod", shop + "/" + s.podName(shop, "bare"), "--port", "9443",
	}
	out, err := s.run(s.Context(), append(append([]string{program}, args...), more...)...)
	code := 0
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		code = ended.ExitCode()
	}
	var report struct{ Ways []finding }
	if json.Unmarshal([]byte(out), &report) != nil {
		s.Fatalf("verify: %v: %s", err, out)
	}
	return report.Ways, code
}
