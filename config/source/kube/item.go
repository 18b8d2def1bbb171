package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

// origin is where the user finds an object of this source.
const origin = "cluster"

// lastApplied is kubectl's copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// version is what was made of one version of an object.
type version struct {
	key        config.Key
	object     *config.Object // nil when it is refused
	shut       *config.Object // what stands in for a refused one without a last good version; nil for nothing
	findings   []admission.Finding
	generation int64  // 0 for kinds without a status of ours
	reported   uint64 // the digest of what its status holds of ours
	held       condition.Held
}

// item is an object on its way from a reflector to the store. Those of custom resources decode themselves, straight
// from the server's JSON.
type item struct {
	metav1.TypeMeta
	metav1.ObjectMeta // only what reflectors ask for
	version
}

// itemList is a page of a list.
type itemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []item `json:"items"`
}

// DeepCopyObject makes items runtime.Objects; what they hold is immutable.
func (i *item) DeepCopyObject() runtime.Object {
	c := *i
	return &c
}

// DeepCopyObject makes lists of items runtime.Objects.
func (l *itemList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = append([]item(nil), l.Items...)
	return &c
}

// objectMeta is what is read of an object's metadata. What a server writes there is not the user's and not judged.
type objectMeta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp,omitzero"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
}

// envelope is a custom resource's outside.
type envelope struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   objectMeta      `json:"metadata"`
	Spec       json.RawMessage `json:"spec,omitempty"`
	Status     json.RawMessage `json:"status,omitempty"`
}

// UnmarshalJSON reads a custom resource. What is wrong with the object itself is a finding, not an error.
func (i *item) UnmarshalJSON(data []byte) error {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	m := &e.Metadata
	*i = item{
		TypeMeta:   metav1.TypeMeta{APIVersion: e.APIVersion, Kind: e.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, ResourceVersion: m.ResourceVersion},
	}
	if m.Name == "" { // a bookmark of a watch
		i.Annotations = m.Annotations
		return nil
	}
	delete(m.Annotations, lastApplied)
	i.version = readCustom(e)
	return nil
}

// readCustom decodes and judges a custom resource.
func readCustom(e envelope) version {
	m := e.Metadata
	v := version{
		key:        config.Key{Kind: decode.KindOf(e.APIVersion, e.Kind), Namespace: m.Namespace, Name: m.Name},
		generation: m.Generation,
	}
	v.reported, v.held = reported(e, v.key.Kind)
	e.Metadata.ResourceVersion, e.Metadata.Generation = "", 0
	if v.key.Kind != config.KindWorkloadEntry { // of which the status says whether it is an endpoint
		e.Status = nil
	}
	plain, err := json.Marshal(e)
	if err != nil {
		v.findings = []admission.Finding{{Severity: admission.Error, Message: "cannot be read: " + err.Error()}}
	} else {
		r := decode.File("cluster.json", plain)
		v.findings = r.Findings
		if len(r.Objects) == 1 {
			o := r.Objects[0]
			if o.Key != v.key { // a file's object without a namespace is in "default"
				o.Key = v.key
				decode.Stamp(&o)
			}
			v.take(o)
		}
		if len(r.Loose) == 1 {
			o := r.Loose[0]
			o.Key, o.Origin = v.key, origin
			v.shut = admission.ClosedStandIn(o, v.findings)
		}
	}
	if v.object == nil && !admission.Refused(v.findings) {
		v.findings = append(v.findings, admission.Finding{
			Severity: admission.Error, Message: fmt.Sprintf("the API server sent it as %s %s, which is not read", e.APIVersion, e.Kind),
			Fix: "use a version of this program that reads it",
		})
	}
	for i := range v.findings {
		v.findings[i].Key, v.findings[i].Origin = v.key, origin
	}
	return v
}

// reported is the digest of what a status holds of ours, and, of what is judged among others, what of that a control plane that starts has to keep.
func reported(e envelope, kind config.Kind) (uint64, condition.Held) {
	if strings.HasPrefix(e.APIVersion, condition.Group+"/") {
		return condition.ParseStandard(e.Status).Digest(), condition.Held{}
	}
	s := condition.Parse(e.Status)
	if !slices.Contains(admission.Judged, kind) {
		return s.Digest(), condition.Held{}
	}
	return s.Digest(), s.Held()
}

// take judges an object that could be decoded, and keeps it when it is not refused.
func (v *version) take(o config.Object) {
	o.Origin = origin
	findings := admission.Validate(o)
	v.findings = append(v.findings, findings...)
	if admission.Refused(findings) {
		v.shut = admission.ClosedStandIn(o, findings)
		return
	}
	v.object = &o
}
