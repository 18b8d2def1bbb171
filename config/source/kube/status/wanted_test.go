package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

func TestWanted(t *testing.T) {
	wrong := []admission.Finding{
		{Severity: admission.Warning, Field: "spec.ports", Message: "odd"},
		{Severity: admission.Error, Field: "spec.hosts[0]", Value: "*", Message: "is every host", Fix: "name one"},
	}
	out := Details{Gateway: "istio-system/gw", Addresses: []condition.Address{{Value: "240.240.0.1", Host: "a.com"}}}
	for name, c := range map[string]struct {
		j    kube.Assessment
		d    Details
		want string
	}{
		"accepted":        {kube.Assessment{LastGood: true, Generation: 4}, out, "Accepted=True/Accepted Reconciled=True/Applied Gateway=True/Gateway:istio-system/gw 1 address"},
		"direct":          {kube.Assessment{LastGood: true}, Details{Gateway: "direct"}, "Accepted=True/Accepted Reconciled=True/Applied Gateway=False/Direct:direct 0 address"},
		"inside the mesh": {kube.Assessment{LastGood: true}, Details{}, "Accepted=True/Accepted Reconciled=True/Applied 0 address"},
		"warned":          {kube.Assessment{LastGood: true, Findings: wrong[:1]}, Details{Warnings: []admission.Finding{{Message: "hidden"}}}, "Accepted=True/AcceptedWithWarnings:spec.ports: odd|hidden Reconciled=True/Applied 0 address"},
		"refused":         {kube.Assessment{Refused: true, Findings: wrong}, out, `Accepted=False/Invalid:spec.hosts[0]: "*": is every host; name one Reconciled=False/Invalid:no version of the object is in use 0 address`},
		"last good":       {kube.Assessment{Refused: true, LastGood: true, Findings: wrong}, out, `Accepted=False/Invalid:spec.hosts[0]: "*": is every host; name one Reconciled=False/Invalid:the last good version of the object is in use Gateway=True/Gateway:istio-system/gw 1 address`},
	} {
		s := wanted(c.j, c.d)
		var got []string
		for _, w := range s.Conditions {
			text := strings.TrimPrefix(w.Type, "egress.sallyport.io/") + "=" + w.Status + "/" + w.Reason
			if w.Message != "" {
				text += ":" + strings.ReplaceAll(w.Message, "\n", "|")
			}
			if int64(w.ObservedGeneration) != c.j.Generation {
				t.Errorf("%s: %s is about generation %d", name, w.Type, w.ObservedGeneration)
			}
			got = append(got, text)
		}
		if text := fmt.Sprintf("%s %d address", strings.Join(got, " "), len(s.Addresses)); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, c.want)
		}
	}
}

// TestHeldEnforced: what a status holds of how far proxies are stays until somebody looks again, and no longer than the revision that it is about.
func TestHeldEnforced(t *testing.T) {
	held := &condition.HeldEnforced{Revision: "r", Condition: condition.Condition{Type: condition.Enforced, Status: "True", Reason: "Enforced", ObservedGeneration: 4}, Proxies: condition.Proxies{Selected: 2, Current: 2}}
	earlier := *held // of an edition with the same content, before another one
	earlier.Condition.ObservedGeneration = 2
	found := &condition.Condition{Type: condition.Enforced, Status: "False", Reason: "Behind"}
	for name, c := range map[string]struct {
		held *condition.HeldEnforced
		d    Details
		want string
	}{
		"nobody looked":    {held, Details{Revision: "r"}, "True"},
		"written back":     {&earlier, Details{Revision: "r"}, ""},
		"another revision": {held, Details{Revision: "s"}, ""},
		"nothing is held":  {nil, Details{Revision: "r"}, ""},
		"somebody looked":  {held, Details{Revision: "r", Enforced: found, Proxies: &condition.Proxies{Selected: 3}}, "False"},
	} {
		s := wanted(kube.Assessment{LastGood: true, Generation: 4, Held: condition.Held{Enforced: c.held}}, c.d)
		got := ""
		for _, w := range s.Conditions {
			if w.Type == condition.Enforced {
				got = w.Status
			}
		}
		if got != c.want || (s.Proxies != nil) != (got != "") {
			t.Errorf("%s: %q, proxies %v", name, got, s.Proxies)
		}
	}
}

// TestHeldWarnings: what a status says of how a policy gets on with others stays until somebody judged that again, and no longer than the edition that it is about.
func TestHeldWarnings(t *testing.T) {
	held := &condition.Condition{Type: condition.Accepted, Status: "True", Reason: condition.Warned, Message: "odd\nthe rule ends soon", ObservedGeneration: 4}
	earlier := *held
	earlier.ObservedGeneration = 3
	odd := []admission.Finding{{Severity: admission.Warning, Message: "odd"}}
	wrong := []admission.Finding{{Severity: admission.Error, Message: "wrong"}}
	for name, c := range map[string]struct {
		held *condition.Condition
		j    kube.Assessment
		d    Details
		want string
	}{
		"nobody looked":     {held, kube.Assessment{LastGood: true, Findings: odd}, Details{Unjudged: true}, "True " + held.Message},
		"it was edited":     {&earlier, kube.Assessment{LastGood: true, Findings: odd}, Details{Unjudged: true}, "True odd"},
		"nothing is held":   {nil, kube.Assessment{LastGood: true}, Details{Unjudged: true}, "True "},
		"somebody looked":   {held, kube.Assessment{LastGood: true}, Details{Warnings: odd}, "True odd"},
		"all is well now":   {held, kube.Assessment{LastGood: true}, Details{}, "True "},
		"it is refused now": {held, kube.Assessment{LastGood: true, Refused: true, Findings: wrong}, Details{Unjudged: true}, "False wrong"},
	} {
		c.j.Generation, c.j.Held.Warned = 4, c.held
		accepted := wanted(c.j, c.d).Conditions[0]
		if got := accepted.Status + " " + accepted.Message; got != c.want || accepted.ObservedGeneration != 4 {
			t.Errorf("%s: %q of generation %d, want %q", name, got, accepted.ObservedGeneration, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	was := condition.Status{Conditions: []condition.Condition{
		{Type: condition.Accepted, Status: "True", Reason: "Accepted", ObservedGeneration: 1, LastTransitionTime: "2026-01-02T03:04:05Z"},
		{Type: condition.Reconciled, Status: "True", ObservedGeneration: 1, LastTransitionTime: "2026-01-02T03:04:05Z"},
	}}
	want := condition.Status{Conditions: []condition.Condition{
		{Type: condition.Accepted, Status: "True", Reason: "Accepted", ObservedGeneration: 2},
		{Type: condition.Reconciled, Status: "False", ObservedGeneration: 2},
	}}
	has := []map[string]any{{"type": "theirs", "extra": 7.0}, {"type": condition.Accepted}}
	got, differs := merge(has, was, want, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	if !differs || len(got) != 3 || got[0].(map[string]any)["extra"] != 7.0 {
		t.Fatalf("%v %v", differs, got)
	}
	if at := got[1].(condition.Condition).LastTransitionTime; at != "2026-01-02T03:04:05Z" {
		t.Errorf("the status is the same, the time %s", at)
	}
	if at := got[2].(condition.Condition).LastTransitionTime; at != "2027-01-01T00:00:00Z" {
		t.Errorf("the status is another, the time %s", at)
	}
	if _, differs := merge(nil, was, was, time.Now()); differs {
		t.Error("the same differs")
	}
}
