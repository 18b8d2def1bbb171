package condition

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// The types of the conditions that are written.
const (
	// Accepted says whether the object is used as it is written; if not, its message says why.
	Accepted = "egress.sallyport.io/Accepted"
	// Enforced says whether every proxy that an EgressPolicy is for has it.
	Enforced = "Enforced"
	// Gateway says where the hosts of a ServiceEntry leave the mesh: True with "NS/SERVICE", False with "direct".
	Gateway = "egress.sallyport.io/Gateway"
	// Reconciled is Istio's: the control plane's configuration holds this generation of the object.
	Reconciled = "Reconciled"
)

// Warned is the reason of Accepted where the object is used, and its message has what is odd about it.
const Warned = "AcceptedWithWarnings"

// Ours says whether Sallyport writes the conditions of that type.
func Ours(conditionType string) bool {
	return slices.Contains([]string{Accepted, Enforced, Gateway, Reconciled}, conditionType)
}

// Condition is one condition as it is written.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"` // True, False or Unknown
	Reason             string     `json:"reason,omitempty"`
	Message            string     `json:"message,omitempty"`
	ObservedGeneration Generation `json:"observedGeneration,omitempty"`
	LastTransitionTime string     `json:"lastTransitionTime,omitempty"` // RFC 3339
}

// Address is one of a ServiceEntry's addresses that were made up for a host.
type Address struct {
	Value string `json:"value"`
	Host  string `json:"host,omitempty"`
}

// Status is what Sallyport writes of a status.
type Status struct {
	Conditions []Condition `json:"conditions,omitempty"`
	Addresses  []Address   `json:"addresses,omitempty"`
	// ObservedRevision is the revision of an EgressPolicy that is in use, and Rules how many rules that has.
	ObservedRevision string `json:"observedRevision,omitempty"`
	Rules            int    `json:"rules,omitempty"`
	// Proxies says how far proxies are with it; nil where nobody looked.
	Proxies *Proxies `json:"proxies,omitempty"`
}

// Proxies are how many an EgressPolicy is for, and how many of those have it.
type Proxies struct {
	Selected int `json:"selected"`
	Current  int `json:"current"`
}

// Held is what the status of an EgressPolicy says that a control plane which starts does not know yet.
type Held struct {
	Enforced *HeldEnforced // nil where nothing is said
	Warned   *Condition    // the condition Accepted, where it has warnings; else nil
}

// Held picks it out.
func (s Status) Held() Held {
	h := Held{Enforced: s.heldEnforced()}
	if i := slices.IndexFunc(s.Conditions, func(c Condition) bool { return c.Type == Accepted && c.Reason == Warned }); i >= 0 {
		h.Warned = &s.Conditions[i]
	}
	return h
}

// HeldEnforced is what a status says of how far proxies are with a revision of an EgressPolicy.
type HeldEnforced struct {
	Revision  string
	Condition Condition
	Proxies   Proxies
}

func (s Status) heldEnforced() *HeldEnforced {
	i := slices.IndexFunc(s.Conditions, func(c Condition) bool { return c.Type == Enforced })
	if i < 0 || s.ObservedRevision == "" || s.Proxies == nil {
		return nil
	}
	return &HeldEnforced{s.ObservedRevision, s.Conditions[i], *s.Proxies}
}

// Generation is an int64 that Istio's JSON writes as a string.
type Generation int64

// UnmarshalJSON takes 7 and "7".
func (g *Generation) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err != nil {
		return err
	}
	*g = Generation(n)
	return nil
}

// Parse picks out of an object's status what is ours. A status that cannot be read holds nothing of ours.
func Parse(status []byte) Status {
	var s Status
	if len(status) == 0 || json.Unmarshal(status, &s) != nil {
		return Status{}
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c Condition) bool { return !Ours(c.Type) })
	return s
}

// Digest covers everything but the times, in any order of the conditions. It is 0 for the empty status.
func (s Status) Digest() uint64 {
	if len(s.Conditions)+len(s.Addresses) == 0 && s.ObservedRevision == "" {
		return 0
	}
	d := xxhash.New()
	text := func(values ...string) {
		for _, v := range values {
			var n [8]byte
			binary.LittleEndian.PutUint64(n[:], uint64(len(v)))
			_, _ = d.Write(n[:])
			_, _ = d.WriteString(v)
		}
	}
	sorted := slices.SortedFunc(slices.Values(s.Conditions), func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	for _, c := range sorted {
		text(c.Type, c.Status, c.Reason, c.Message, strconv.FormatInt(int64(c.ObservedGeneration), 10))
	}
	for _, a := range s.Addresses {
		text(a.Value, a.Host)
	}
	text(s.ObservedRevision, strconv.Itoa(s.Rules))
	if s.Proxies != nil {
		text(strconv.Itoa(s.Proxies.Selected), strconv.Itoa(s.Proxies.Current))
	}
	return d.Sum64()
}
