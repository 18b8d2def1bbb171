package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const simulatedPolicy = `apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: list, namespace: default}
spec:
  rules:
  - {name: public, hosts: [good.test], paths: [/public/**], action: Allow}
`

const simulatedEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: other, namespace: default}
spec: {hosts: [other.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`

// simulation is what the test reads of an answer.
type simulation struct {
	Records, Distinct         int
	NewlyDenied, NewlyAllowed []struct {
		Host          string
		Inputs        int
		Before, After struct{ Verdict string }
		Examples      []struct{ Path string }
	}
	NotReproducible int
	Gaps            int
	Why             []struct{ Why string } `json:"notReproducibleWhy"`
}

// TestSimulateUp simulates a change for what a real forward proxy recorded, applies it, and asks the same again.
func TestSimulateUp(t *testing.T) {
	programs := upPrograms(t)
	server := upServer(t)
	dir, files := programs.dir(t), programs.dir(t)
	write := func(name, content string) {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "good.yaml"), fmt.Sprintf(upEntries["good.yaml"], "good.test", server))
	write(filepath.Join(files, "policy.yaml"), simulatedPolicy)
	write(filepath.Join(files, "entry.yaml"), simulatedEntry)
	data := filepath.Join(programs.dir(t), "data")
	names := upNameServer(t, map[string]string{"good.test.": "127.0.0.1"})
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--dns-server", names)
	up.says(t, "sallyport: ready")
	proxy, good := up.proxy(t), fmt.Sprintf("http://good.test:%d", server)
	tries := map[string]int{good + "/public/a": 200, good + "/public/b": 200, good + "/private": 200, "http://other.test/": 403}
	upEventually(t, "the host", answers(proxy, good+"/public/a", 200))
	for target, status := range tries {
		if err := answers(proxy, target, status)(); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(args ...string) (out simulation, code int, text string) {
		text, err := programs.run(t, append([]string{"simulate", "--up", dir, "--data", data, "-o", "json"}, args...)...)
		if _, answer, found := strings.Cut("\n"+text, "\n{\n"); found { // beside it stands what is said of the objects
			if err := json.NewDecoder(strings.NewReader("{" + answer)).Decode(&out); err != nil {
				t.Errorf("%v: %s", err, text)
			}
		}
		return out, exitStatus(err), text
	}
	change := []string{"-f", filepath.Join(files, "policy.yaml"), "-f", filepath.Join(files, "entry.yaml")}
	upEventually(t, "the records", func() error {
		s, code, text := ask(change...)
		if code != 0 || s.Distinct != 4 || len(s.NewlyDenied) != 1 || len(s.NewlyAllowed) != 0 || s.NotReproducible != 0 {
			return fmt.Errorf("exit code %d: %s", code, text)
		}
		return nil
	})
	s, _, text := ask(change...)
	if c := s.NewlyDenied[0]; c.Host != "good.test" || c.Inputs != 1 || c.Examples[0].Path != "/private" || c.After.Verdict != "deny" {
		t.Errorf("%s", text)
	}

	t.Run("what stands in the way is taken away", func(t *testing.T) { // other.test is registered, but no rule of the list allows it
		s, code, text := ask("-f", filepath.Join(files, "entry.yaml"), "--remove", "serviceentry/default/good")
		if code != 0 || len(s.NewlyDenied) != 1 || s.NewlyDenied[0].Inputs != 3 || len(s.NewlyAllowed) != 1 || s.NewlyAllowed[0].Host != "other.test" {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	t.Run("a limit", func(t *testing.T) {
		if _, code, text := ask(append(change, "--max-newly-denied", "0")...); code != exitNo || !strings.Contains(text, "1 distinct inputs would newly be denied") {
			t.Errorf("exit code %d: %s", code, text)
		}
		if _, code, text := ask(append(change, "--max-newly-denied", "1")...); code != 0 {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	t.Run("what admission refuses", func(t *testing.T) {
		bad := filepath.Join(files, "bad.yaml")
		write(bad, strings.Replace(simulatedPolicy, "action: Allow", "action: Maybe", 1))
		if _, code, text := ask("-f", bad); code != exitNo || !strings.Contains(text, "Maybe") || !strings.Contains(text, "would be refused") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	t.Run("pages", func(t *testing.T) {
		for format, want := range map[string]string{"table": "Newly denied: 1 input", "html": "<h2>Newly denied: 1</h2>", "markdown": "#### Newly denied: 1 input"} {
			text, err := programs.run(t, append([]string{"simulate", "--up", dir, "--data", data, "-o", format}, change...)...)
			if err != nil || !strings.Contains(text, want) || !strings.Contains(text, "good.test") {
				t.Errorf("%s: %v %s", format, err, text)
			}
		}
	})
	t.Run("wrong calls", func(t *testing.T) {
		for want, args := range map[string][]string{
			"what would change":            {},
			"-o \"xml\"":                   {"-f", "x", "-o", "xml"},
			"no such file":                 {"-f", filepath.Join(files, "none.yaml")},
			"KIND/NAMESPACE/NAME":          {"--remove", "good"},
			"there is no such object":      {"--remove", "ServiceEntry/default/none"},
			"--since":                      {"--remove", "ServiceEntry/default/good", "--since", "yesterday"},
			"there is nothing between":     {"--remove", "ServiceEntry/default/good", "--since", "1h", "--until", "2d"},
			"give one of them":             {"--remove", "ServiceEntry/default/good", "--config-dir", dir},
			"there are no objects in it":   {"-f", os.DevNull},
			"no audit log in":              {"--remove", "ServiceEntry/default/good", "--data", files},
			"write NAMESPACE/NAME, the na": {"--remove", "ServiceEntry/default/good", "--from", "a/b/c"},
		} {
			_, code, text := ask(args...)
			if (code != exitUsage && want != "no audit log in") || code == 0 || !strings.Contains(text, want) {
				t.Errorf("%v: exit code %d: %s", args, code, text)
			}
		}
	})
	t.Run("applied", func(t *testing.T) {
		write(filepath.Join(dir, "policy.yaml"), simulatedPolicy)
		tries[good+"/private"] = 403
		upEventually(t, "the policy", answers(proxy, good+"/private", 403))
		for target, status := range tries {
			if err := answers(proxy, target, status)(); err != nil {
				t.Error(err)
			}
		}
	})
	// What was allowed before the policy came is not reproducible; what was denied by it is, and would be allowed.
	back := func() error {
		s, code, text := ask("--remove", "EgressPolicy/default/list")
		if code != 0 || len(s.NewlyAllowed) != 1 || s.NewlyAllowed[0].Inputs != 1 || len(s.NewlyDenied) != 0 || len(s.Why) != 1 || s.NotReproducible != 0 {
			return fmt.Errorf("exit code %d: %s", code, text)
		}
		return nil
	}
	upEventually(t, "the policy's denial", back)
	if err := up.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := back(); err != nil {
		t.Errorf("of the file, without a server: %v", err)
	}
}
