package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/sidecar/inject"
)

// MaxFile is the size of a file at most, in bytes.
const MaxFile = 64 << 20

// Outcome is what became of one object.
type Outcome struct {
	Line     int    // of the file, where its document begins
	Object   string // "Deployment shop/web"
	Injected bool
	Reason   string // why not
	Warnings []string
}

// Inject gives a file's pods and pod templates their proxies. Objects without a namespace are taken to be in namespace.
// Pods get a proxy unless they say that they do not want one, as if their namespaces were labelled for it. Outcomes are of
// the objects that have pods, in the file's order. An error names the line of the document and everything that is
// wrong in the file; the result is nil then.
func Inject(file []byte, namespace string, s inject.Settings) ([]byte, []Outcome, error) {
	if len(file) > MaxFile {
		return nil, nil, fmt.Errorf("the file has %d bytes, at most %d are read", len(file), MaxFile)
	}
	var out bytes.Buffer
	var errs []error
	run := run{namespace: namespace, settings: s}
	for d := range documents(file) {
		run.line = d.line
		changed, err := run.document(d)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", d.line, err))
			continue
		}
		out.Write(d.before)
		if changed == nil {
			out.Write(d.content)
			continue
		}
		if bytes.HasPrefix(d.content, []byte("---")) {
			out.WriteString("---\n")
		}
		out.Write(changed)
	}
	if len(errs) > 0 {
		return nil, run.outcomes, errors.Join(errs...)
	}
	return out.Bytes(), run.outcomes, nil
}

// run goes through one file.
type run struct {
	namespace string
	settings  inject.Settings
	line      int
	outcomes  []Outcome
}

// document gives the changed text, or nil.
func (r *run) document(d document) ([]byte, error) {
	if len(d.content) == 0 {
		return nil, nil
	}
	plain, err := yaml.YAMLToJSONStrict(d.content)
	if err != nil {
		return nil, err
	}
	changed, err := r.object(plain, 0)
	if err != nil || changed == nil {
		return nil, err
	}
	if strings.HasPrefix(strings.TrimSpace(string(d.content)), "{") {
		var indented bytes.Buffer
		if err := json.Indent(&indented, changed, "", "  "); err != nil {
			return nil, err
		}
		indented.WriteByte('\n')
		return indented.Bytes(), nil
	}
	return yaml.JSONToYAML(changed)
}

// maxListDepth bounds lists within lists.
const maxListDepth = 3

// object gives the changed object as JSON, or nil.
func (r *run) object(plain []byte, depth int) ([]byte, error) {
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
		Metadata   struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
			Namespace    string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(plain, &head); err != nil {
		return nil, nil // no object of Kubernetes
	}
	if strings.HasSuffix(head.Kind, "List") && head.Items != nil && depth < maxListDepth {
		return r.list(plain, head.Items, depth)
	}
	path, ok := templates[head.APIVersion+"/"+head.Kind]
	if !ok {
		return nil, nil
	}
	o := owner{
		apiVersion: head.APIVersion, kind: head.Kind, name: head.Metadata.Name, generateName: head.Metadata.GenerateName, namespace: head.Metadata.Namespace,
	}
	if o.namespace == "" {
		o.namespace = r.namespace
	}
	changed, outcome, err := o.inject(plain, path, r.settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o, err)
	}
	outcome.Line = r.line
	r.outcomes = append(r.outcomes, outcome)
	return changed, nil
}

// list changes the items that change, and nothing else of the list.
func (r *run) list(plain []byte, items []json.RawMessage, depth int) ([]byte, error) {
	some := false
	var errs []error
	for i, item := range items {
		changed, err := r.object(item, depth+1)
		errs = append(errs, err)
		if changed != nil {
			some, items[i] = true, changed
		}
	}
	if err := errors.Join(errs...); err != nil || !some {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(plain, &fields); err != nil {
		return nil, err
	}
	var err error
	if fields["items"], err = json.Marshal(items); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
