package condition

import (
	"encoding/json"
	"testing"
)

const written = `{
  "observedGeneration": "3",
  "conditions": [
    {"type": "example.com/Other", "status": "True"},
    {"type": "egress.sallyport.io/Accepted", "status": "True", "reason": "Accepted", "observedGeneration": "3", "lastTransitionTime": "2026-01-02T03:04:05Z"},
    {"type": "egress.sallyport.io/Gateway", "status": "True", "message": "istio-system/istio-egressgateway", "observedGeneration": 3}
  ],
  "addresses": [{"value": "240.240.0.7", "host": "a.com"}]
}`

func TestDigest(t *testing.T) {
	s := Parse([]byte(written))
	if len(s.Conditions) != 2 || s.Conditions[0].ObservedGeneration != 3 || s.Addresses[0].Host != "a.com" {
		t.Fatalf("parsed %+v", s)
	}
	same := Status{Conditions: []Condition{s.Conditions[1], s.Conditions[0]}, Addresses: s.Addresses}
	same.Conditions[1].LastTransitionTime = "2027-01-02T03:04:05Z"
	if same.Digest() != s.Digest() {
		t.Error("the digest depends on order or times")
	}
	for name, change := range map[string]func(*Status){
		"status":     func(s *Status) { s.Conditions[0].Status = "False" },
		"reason":     func(s *Status) { s.Conditions[0].Reason = "x" },
		"message":    func(s *Status) { s.Conditions[1].Message = "x" },
		"generation": func(s *Status) { s.Conditions[1].ObservedGeneration = 4 },
		"address":    func(s *Status) { s.Addresses = nil },
		"condition":  func(s *Status) { s.Conditions = s.Conditions[:1] },
	} {
		other := Parse([]byte(written))
		change(&other)
		if other.Digest() == s.Digest() {
			t.Errorf("%s does not count", name)
		}
	}
	for _, nothing := range []string{"", "{}", "null", `{"conditions": 7}`, `{"conditions":[{"type":"x","status":"True"}]}`} {
		if d := Parse([]byte(nothing)).Digest(); d != 0 {
			t.Errorf("the digest of %q is %d", nothing, d)
		}
	}
	again, err := json.Marshal(s)
	if err != nil || Parse(again).Digest() != s.Digest() {
		t.Errorf("not the same after writing: %s, %v", again, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(written))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Parse(data)
		text, err := json.Marshal(s)
		if err != nil || Parse(text).Digest() != s.Digest() {
			t.Fatalf("%s reads as another status than it was made of: %v", text, err)
		}
	})
}
