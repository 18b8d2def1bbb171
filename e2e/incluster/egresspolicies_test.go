package incluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// allowlist is a policy for the pods of one app, whom the API server's labels tell from others of the namespace.
const allowlist = `
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: list, namespace: shop}
spec:
  selector: {matchLabels: {app: app}}
  rules:
  - {name: contract, hosts: [%s], action: Allow, reason: The contract, owner: shop, expires: %q}
`

// egressPolicies: one app of the namespace is held to a list, by its pod's labels; the record and the command line tell why; and a
// rule ends on its second though no controller is there.
func (s *stage) egressPolicies(app string) {
	s.startApp(shop, "colleague")
	other := s.podIP(shop, "colleague")
	s.apply(entry(shop, "external", external))
	s.apply(entry(shop, "second", second))
	for _, who := range []string{app, other} {
		s.opens(who, external, "/open")
		s.opens(who, second, "/open")
	}
	later := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	s.becomes("who writes it is warned of what it would newly deny", time.Minute, func() error {
		return s.warnsOf(fmt.Sprintf(allowlist, external, later.Format(time.RFC3339)), "would newly deny ", "of 1 workload in the last hour", "to "+second+":443")
	})
	s.apply(fmt.Sprintf(allowlist, external, later.Format(time.RFC3339)))
	s.kubectl("wait", "-n", shop, "egresspolicy/list", "--for=condition=egress.sallyport.io/Accepted", "--timeout=3m")
	s.kubectl("wait", "-n", shop, "egresspolicy/list", "--for=condition=Enforced", "--timeout=3m")
	s.becomes("all proxies have it", time.Minute, s.keptByAll)
	s.must(s.endsOpen(app))
	for _, scheme := range []string{"http://", "https://"} {
		s.becomes("what is not on the list is closed", time.Minute, func() error { return blocked(s.Context(), app, scheme+second+"/closed") })
		s.must(reaches(s.Context(), app, scheme+external+"/list"))
		s.must(reaches(s.Context(), other, scheme+second+"/other"))
	}
	s.becomes("the log says by which policy", time.Minute, func() error {
		_ = blocked(s.Context(), app, "https://"+second+"/logged")
		return s.deniedByList()
	})
	if got := s.sallyport("policy", "what-can", "shop/app"); !strings.Contains(got, external) || !strings.Contains(got, "list") {
		s.Errorf("policy what-can: %s", got)
	}
	if got := s.sallyport("policy", "who-can", second); !strings.Contains(got, "colleague") {
		s.Errorf("policy who-can: %s", got)
	}
	s.endsAlone(app, other)
	s.kubectl("delete", "egresspolicy", "-n", shop, "list")
	s.becomes("without the policy it is open", time.Minute, func() error { return reaches(s.Context(), app, "https://"+second+"/again") })
	s.kubectl("delete", "serviceentry", "-n", shop, "external", "second")
	s.kubectl("delete", "deployment", "-n", shop, "colleague")
}

// warnsOf: whoever tries to write an object hears a warning with these words in it.
func (s *stage) warnsOf(yaml string, words ...string) error {
	cmd := exec.CommandContext(s.Context(), s.Kubectl, "apply", "--dry-run=server", "-f", "-")
	cmd.Env, cmd.Stdin = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig), strings.NewReader(yaml)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return nil
		}
	}
	return fmt.Errorf("no line has %q: %s", words, out)
}

// keptByAll: the status says that the proxies which the policy is for have it as it was written last, and in which revision.
func (s *stage) keptByAll() error {
	text, err := s.ask("get", "egresspolicy", "-n", shop, "list", "-o", "json")
	if err != nil {
		return err
	}
	var got struct {
		Metadata struct{ Generation int64 }
		Status   struct {
			Conditions []struct {
				Type, Status       string
				ObservedGeneration int64
			}
			Proxies          struct{ Selected, Current int }
			ObservedRevision string
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return err
	}
	said := got.Status
	for _, c := range said.Conditions {
		if c.Type == "Enforced" && c.Status == "True" && c.ObservedGeneration == got.Metadata.Generation &&
			said.Proxies.Selected > 0 && said.Proxies.Current == said.Proxies.Selected && said.ObservedRevision != "" {
			return nil
		}
	}
	return fmt.Errorf("generation %d has the status %+v", got.Metadata.Generation, said)
}

// endsOpen: an injected proxy can end what is open, with the rights that its container has, and the status says nothing else.
func (s *stage) endsOpen(app string) error {
	if said := s.kubectl("get", "egresspolicy", "-n", shop, "list", "-o", `jsonpath={.status.conditions[?(@.type=="Enforced")].message}`); strings.Contains(said, "nobody may end") {
		return errors.New(said)
	}
	metrics, err := get(s.Context(), "http://"+app+":15020/metrics")
	if err == nil && !strings.Contains(metrics, "\nsallyport_agent_tunnels_can_end 1\n") {
		err = errors.New("the pod's agent can end nothing that is open")
	}
	return err
}

func (s *stage) deniedByList() error {
	all, err := s.records("--since", "10m", "--verdict", "denied", "--host", second)
	if err != nil {
		return err
	}
	for i := range all {
		if r := &all[i]; r.DecidedBy.Kind == "EgressPolicy" && r.DecidedBy.Name == "list" && r.Reporter == record.ReporterGateway && r.Workload.Principal == "spiffe://cluster.local/ns/shop/sa/app" {
			return nil
		}
	}
	return fmt.Errorf("no record of a denial by the list among %d", len(all))
}

// endsAlone: the rule ends while nobody is there who could tell a proxy so. What others may stays.
func (s *stage) endsAlone(app, other string) {
	end := time.Now().Add(45 * time.Second).UTC().Truncate(time.Second)
	s.apply(fmt.Sprintf(allowlist, external, end.Format(time.RFC3339)))
	s.becomes("the new end has arrived at the proxies", time.Minute, s.keptByAll) // that the controllers have taken it says nothing of who is to keep it alone
	s.kubectl("scale", "-n", system, "deployment/sallyport", "--replicas=0")
	s.kubectl("wait", "-n", system, "--for=delete", "pod", "-l", "app=sallyport", "--timeout=3m")
	if err := reaches(s.Context(), app, "https://"+external+"/alone"); err != nil && time.Now().Before(end) {
		s.Fatal(err)
	} else if err != nil {
		s.Log("the controllers took longer to go than the rule was to last: the end is seen all the same")
	}
	s.rest(time.Until(end.Add(time.Second)))
	s.becomes("the rule has ended", time.Minute, func() error {
		for _, scheme := range []string{"https://", "http://"} {
			began := time.Now()
			err := reaches(s.Context(), app, scheme+external+"/ended")
			if err == nil && began.After(end.Add(4*time.Second)) {
				s.Errorf("by %s it is open %s after its end", scheme, began.Sub(end))
			}
			if err == nil {
				return fmt.Errorf("by %s it is open", scheme)
			}
		}
		return nil
	})
	s.must(reaches(s.Context(), other, "https://"+external+"/other"))
	s.kubectl("scale", "-n", system, "deployment/sallyport", "--replicas=2")
	s.kubectl("rollout", "status", "-n", system, "deployment/sallyport", "--timeout=2m")
	pod := s.podName(shop, "app")
	s.becomes("the proxies are back", 3*time.Minute, func() error { // each comes when it next tries
		got, err := s.operator("proxies", "-o", "json") // asks a controller that has just come
		if err == nil && (!strings.Contains(got, pod) || strings.Count(got, `"router~`) < 2) {
			err = fmt.Errorf("connected are: %s", got)
		}
		return err
	})
}

// uninstalled: without the release nothing that was closed opens, and users' policies are still there.
func (s *stage) uninstalled(app string) {
	s.apply(fmt.Sprintf(allowlist, external, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	s.helm("uninstall", "sallyport", "-n", system, "--wait", "--timeout", "3m")
	began := time.Now()
	for range 2 {
		for _, target := range []string{"https://" + second, "http://" + nobody} {
			s.must(blocked(s.Context(), app, target+"/uninstalled"))
		}
		// Helm waits for Deployments, not for their pods: gateways serve what is allowed until they are ended.
		s.becomes("no gateway serves any more", time.Minute, func() error { return blocked(s.Context(), app, "https://"+external+"/last") })
	}
	s.Logf("what is allowed was served for %s without the release", since(began))
	if seen := s.outside.Sightings("/uninstalled"); len(seen) > 0 {
		s.Errorf("the outside saw %v", seen)
	}
	s.kubectl("get", "egresspolicy", "-n", shop, "list")
	s.kubectl("delete", "egresspolicy", "-n", shop, "list")
}
