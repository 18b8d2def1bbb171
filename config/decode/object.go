package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode/strict"
)

// defaultNamespace is where objects belong that name none, as for kubectl.
const defaultNamespace = "default"

// envelope is what every object begins with, read loosely: enough to say whose the rest is.
type envelope struct {
	APIVersion string      `json:"apiVersion"`
	Kind       config.Kind `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

func (r *reader) document(d document) {
	plain, err := toJSON(d, strings.HasSuffix(r.name, ".json"))
	if err != nil {
		r.broken(err.line, err.message, err.fix)
		return
	}
	r.warnOfTags(d)
	r.bytes += len(plain)
	if r.bound(); r.Refused == nil {
		r.item(d, d.line, plain, 0)
	}
}

// maxListDepth bounds lists within lists.
const maxListDepth = 3

// item reads one object, or a list of them, that begins at that line of the file.
func (r *reader) item(d document, line int, plain []byte, depth int) {
	if string(plain) == "null" {
		return
	}
	r.items++
	if r.bound(); r.Refused != nil {
		return
	}
	var e envelope
	if err := json.Unmarshal(plain, &e); err != nil {
		p := notAnObject(err)
		r.nameless(line, p.Field, "", p.Message, p.Fix)
		return
	}
	switch {
	case e.Kind == "":
		r.nameless(line, "kind", "", "it is missing", "write the object's kind, as in ServiceEntry")
	case e.APIVersion == "":
		r.nameless(line, "apiVersion", "", "it is missing", "write it, as in "+IstioGroup+"/v1")
	case strings.HasSuffix(string(e.Kind), "List") && e.Items != nil && depth < maxListDepth:
		lines := itemLines(d, len(e.Items))
		for i, item := range e.Items {
			at := line
			if depth == 0 && lines != nil {
				at = lines[i]
			}
			r.item(d, at, item, depth+1)
		}
	case e.Kind == "List":
		// An empty one, as kubectl prints when nothing was found.
	default:
		r.object(line, e, plain)
	}
}

// notAnObject says why a document cannot be read even loosely.
func notAnObject(err error) strict.Problem {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) && t.Field != "" {
		return broken("", t)[0].Problem
	}
	return strict.Problem{Message: "this is no Kubernetes object", Fix: "write apiVersion, kind, metadata.name and spec"}
}

func (r *reader) object(line int, e envelope, plain []byte) {
	o := config.Object{
		Key:    config.Key{Kind: e.Kind, Namespace: e.Metadata.Namespace, Name: e.Metadata.Name},
		Origin: r.origin(line),
	}
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	o.Kind = KindOf(e.APIVersion, string(e.Kind))
	if o.Kind == config.KindNamespace || o.Kind == config.KindNode || o.Kind == config.KindGatewayClass {
		o.Namespace = ""
	}
	read, meant := readerOf(e)
	if read == nil {
		severity, fix := admission.Warning, insteadOf(e)
		if meant != "" {
			severity, fix = admission.Error, "did you mean "+meant+"?"
			r.State = max(r.State, Partial)
		}
		r.find(o, severity, strict.Problem{
			Field: "kind", Value: string(e.Kind), Message: fmt.Sprintf("objects of this kind (%s) are not read", e.APIVersion), Fix: fix,
		})
		return
	}
	if o.Name == "" {
		r.nameless(line, "metadata.name", "", fmt.Sprintf("the %s has no name", e.Kind), "give it one")
		return
	}
	if r.bounds.Take != nil {
		if r.Refused = r.bounds.Take(o.Key); r.Refused != nil {
			return
		}
	}
	refused := false
	for _, p := range read(&o, plain) {
		severity := admission.Error
		if p.harmless {
			severity = admission.Warning
		}
		refused = refused || !p.harmless
		r.find(o, severity, p.Problem)
	}
	if refused {
		r.Rejected = append(r.Rejected, o.Key)
		if o.Spec != nil {
			Stamp(&o)
			r.Loose = append(r.Loose, o)
		}
		return
	}
	Stamp(&o)
	shared.share(&o)
	r.Objects = append(r.Objects, o)
}

// insteadOf says what to write in place of a kind that is not read, and that others lead traffic by.
func insteadOf(e envelope) string {
	group, _, _ := strings.Cut(e.APIVersion, "/")
	switch kind := string(e.Kind); {
	case e.APIVersion == "v1" && kind == "Endpoints":
		return "write an EndpointSlice, which a cluster makes of it by itself"
	case group == "networking.k8s.io" && kind == "Ingress":
		return "nothing comes in by it here: write an HTTPRoute, or a VirtualService, that is bound to a Gateway"
	case group == "multicluster.x-k8s.io" && (kind == "ServiceImport" || kind == "ServiceExport"):
		return "nothing leads anywhere by it here: Services of one name and namespace are one in all clusters that are joined"
	default:
		return "nothing needs to be done; it has no effect here"
	}
}

func (r *reader) find(o config.Object, s admission.Severity, p strict.Problem) {
	r.Findings = append(r.Findings, admission.Finding{
		Severity: s, Key: o.Key, Origin: o.Origin, Field: p.Field, Value: unquote(p.Value), Message: p.Message, Fix: p.Fix,
	})
}

// unquote takes the quotes off a JSON string: findings print their own.
func unquote(s string) string {
	var plain string
	if json.Unmarshal([]byte(s), &plain) == nil {
		return plain
	}
	return s
}

// itemLines finds the lines of the file that a list's items begin at. It returns nil when it cannot tell.
func itemLines(d document, want int) []int {
	var root yaml.Node
	if yaml.Unmarshal(d.text, &root) != nil || len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	top := root.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value != "items" || top[i+1].Kind != yaml.SequenceNode || len(top[i+1].Content) != want {
			continue
		}
		lines := make([]int, want)
		for j, item := range top[i+1].Content {
			lines[j] = d.first + item.Line - 1
		}
		return lines
	}
	return nil
}

// topFields are what an object has around and beside its spec.
var topFields = []string{"apiVersion", "kind", "metadata", "spec", "status"}

// readAround reads an object's metadata, and says whether there is a spec to read.
func readAround(o *config.Object, top map[string]json.RawMessage) (faults []fault, whole bool) {
	var meta metav1.ObjectMeta
	unknown, err := sigsjson.UnmarshalStrict(top["metadata"], &meta)
	if err != nil {
		return broken("metadata", err), false
	}
	faults = unknownFields(unknown, "metadata", reflect.TypeOf(meta), false)
	o.Labels, o.Annotations, o.Created = meta.Labels, meta.Annotations, meta.CreationTimestamp.Time
	if top["spec"] == nil || string(top["spec"]) == "null" {
		return append(faults, fault{Problem: strict.Problem{Field: "spec", Message: "it is missing", Fix: "write the spec of the " + plainName(o.Kind)}}), false
	}
	return faults, true
}
