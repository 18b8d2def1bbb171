package condition

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const heldRoute = `{"parents":[
  {"controllerName":"example.com/other","parentRef":{"name":"theirs"},"conditions":[{"type":"Accepted","status":"True","reason":"Accepted","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}]},
  {"controllerName":"egress.sallyport.io/gateway-controller","parentRef":{"name":"web"},"conditions":[
    {"type":"Accepted","status":"True","reason":"Accepted","message":"","observedGeneration":1,"lastTransitionTime":"2026-01-02T00:00:00Z"},
    {"type":"ResolvedRefs","status":"False","reason":"BackendNotFound","message":"","observedGeneration":1,"lastTransitionTime":"2026-01-02T00:00:00Z"}]}]}`

// route is the status of a route at one Gateway.
func route(resolved metav1.ConditionStatus, reason string) gatewayv1.RouteStatus {
	return gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{{
		ControllerName: Controller, ParentRef: gatewayv1.ParentReference{Name: "web"},
		Conditions: []metav1.Condition{
			{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}, {Type: "ResolvedRefs", Status: resolved, Reason: reason},
		},
	}}}
}

// becomes is what a held status becomes, in the types of the API.
func becomes[T any](t *testing.T, held string, patch map[string]any) (out T) {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(held), &all); err != nil {
		t.Fatal(err)
	}
	for name, value := range patch {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestOverRoute: others' parents stay, and a time is that of the last transition.
func TestOverRoute(t *testing.T) {
	want := WantStandard(route(metav1.ConditionTrue, "ResolvedRefs"), 2)
	out := becomes[gatewayv1.RouteStatus](t, heldRoute, want.Over([]byte(heldRoute), now))
	if len(out.Parents) != 2 || out.Parents[0].ControllerName != "example.com/other" || len(out.Parents[0].Conditions) != 1 {
		t.Fatalf("parents %+v", out.Parents)
	}
	accepted, resolved := out.Parents[1].Conditions[0], out.Parents[1].Conditions[1]
	if accepted.ObservedGeneration != 2 || accepted.LastTransitionTime.UTC().Month() != time.January {
		t.Errorf("accepted %+v", accepted)
	}
	if resolved.Status != "True" || resolved.ObservedGeneration != 2 || !resolved.LastTransitionTime.Time.Equal(now) {
		t.Errorf("resolved %+v", resolved)
	}
}

// TestOverNothing: what is held already is not written again, whatever others wrote.
func TestOverNothing(t *testing.T) {
	want := WantStandard(route(metav1.ConditionFalse, "BackendNotFound"), 1)
	if patch := want.Over([]byte(heldRoute), now); patch != nil {
		t.Errorf("it is written again: %v", patch)
	}
	if WantStandard(route(metav1.ConditionFalse, "BackendNotFound"), 2).Digest() == want.Digest() {
		t.Error("the generation does not count")
	}
	if d := ParseStandard([]byte(`{"parents":[{"controllerName":"example.com/other"}]}`)).Digest(); d != 0 {
		t.Errorf("others' entries count: %d", d)
	}
}

// TestOverRemoved: without a parent of ours, only others' stay.
func TestOverRemoved(t *testing.T) {
	out := becomes[gatewayv1.RouteStatus](t, heldRoute, WantStandard(gatewayv1.RouteStatus{}, 3).Over([]byte(heldRoute), now))
	if len(out.Parents) != 1 || out.Parents[0].ParentRef.Name != "theirs" {
		t.Errorf("parents %+v", out.Parents)
	}
}

// TestOverGateway: listeners and addresses that are gone leave; conditions of others' types stay.
func TestOverGateway(t *testing.T) {
	const held = `{"addresses":[{"type":"IPAddress","value":"192.0.2.1"}],"conditions":[
	  {"type":"example.com/Theirs","status":"True","reason":"a","lastTransitionTime":"2026-01-01T00:00:00Z"},
	  {"type":"Accepted","status":"Unknown","reason":"Pending","lastTransitionTime":"1970-01-01T00:00:00Z"}],
	  "listeners":[{"name":"a","attachedRoutes":3,"supportedKinds":[],"conditions":[{"type":"Accepted","status":"True","reason":"Accepted","observedGeneration":1,"lastTransitionTime":"2026-01-03T00:00:00Z"}]},
	  {"name":"b","attachedRoutes":0,"supportedKinds":[],"conditions":[]}]}`
	want := gatewayv1.GatewayStatus{
		Conditions: []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}},
		Listeners: []gatewayv1.ListenerStatus{{Name: "a", AttachedRoutes: 2, Conditions: []metav1.Condition{
			{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"},
		}}},
	}
	out := becomes[gatewayv1.GatewayStatus](t, held, WantStandard(want, 4).Over([]byte(held), now))
	if len(out.Addresses) != 0 || len(out.Listeners) != 1 || out.Listeners[0].AttachedRoutes != 2 || out.Listeners[0].Conditions[0].LastTransitionTime.UTC().Day() != 3 {
		t.Errorf("%+v", out)
	}
	if len(out.Conditions) != 2 || out.Conditions[0].Type != "example.com/Theirs" || out.Conditions[1].Status != "True" || !out.Conditions[1].LastTransitionTime.Time.Equal(now) {
		t.Errorf("conditions %+v", out.Conditions)
	}
}

// TestOverBounded: no status is longer than the API lets it be.
func TestOverBounded(t *testing.T) {
	var all gatewayv1.RouteStatus
	for range 32 {
		all.Parents = append(all.Parents, route(metav1.ConditionTrue, "ResolvedRefs").Parents...)
	}
	out := becomes[gatewayv1.RouteStatus](t, heldRoute, WantStandard(all, 1).Over([]byte(heldRoute), now))
	if len(out.Parents) != 32 || out.Parents[0].ParentRef.Name != "theirs" {
		t.Errorf("%d parents, first %+v", len(out.Parents), out.Parents[0])
	}
}
