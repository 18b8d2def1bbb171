package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/reflect/protoreflect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

const policyCRD = "crds/egresspolicy.yaml"

// property is what of a structural schema is compared with the API's messages.
type property struct {
	Type                 string
	Description          string
	Enum                 []any
	Properties           map[string]property
	Items                *property
	AdditionalProperties *property
}

// TestCRDHasEveryField: the schema of the spec has the fields of the message and no other, each with words.
func TestCRDHasEveryField(t *testing.T) {
	content, err := os.ReadFile(policyCRD)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema property }
			}
		}
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	compareMessage(t, "spec", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], (&v1alpha1.EgressPolicy{}).ProtoReflect().Descriptor())
}

func compareMessage(t *testing.T, at string, p property, message protoreflect.MessageDescriptor) {
	known := map[string]bool{}
	for i := range message.Fields().Len() {
		fd := message.Fields().Get(i)
		known[fd.JSONName()] = true
		field, at := p.Properties[fd.JSONName()], at+"."+fd.JSONName()
		if field.Description == "" {
			t.Errorf("%s: it is missing, or has no description", at)
		}
		if fd.IsList() && field.Items != nil {
			field = *field.Items
		}
		compareField(t, at, field, fd)
	}
	for name := range p.Properties {
		if !known[name] {
			t.Errorf("%s.%s: the API has no such field", at, name)
		}
	}
}

func compareField(t *testing.T, at string, p property, fd protoreflect.FieldDescriptor) {
	want := map[protoreflect.Kind]string{
		protoreflect.StringKind: "string", protoreflect.EnumKind: "string", protoreflect.BoolKind: "boolean",
		protoreflect.Uint32Kind: "integer", protoreflect.MessageKind: "object",
	}[fd.Kind()]
	timestamp := fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Timestamp"
	if timestamp {
		want = "string"
	}
	if p.Type != want {
		t.Errorf("%s: type %q, want %q", at, p.Type, want)
	}
	switch {
	case fd.IsMap():
		if p.AdditionalProperties == nil {
			t.Errorf("%s: it is no map", at)
		}
	case fd.Enum() != nil:
		var values []any
		for i := range fd.Enum().Values().Len() {
			if name := string(fd.Enum().Values().Get(i).Name()); name != "Unset" {
				values = append(values, name)
			}
		}
		if fmt.Sprint(p.Enum) != fmt.Sprint(values) {
			t.Errorf("%s: values %v, want %v", at, p.Enum, values)
		}
	case fd.Message() != nil && !timestamp:
		compareMessage(t, at, p, fd.Message())
	}
}

// repeated is a list of n items of YAML; %[1]d is the item's number.
func repeated(n int, item string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(item, i+1)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// refusedByCRD are specs that the API server refuses by the CRD alone, and its words. Admission refuses them too.
var refusedByCRD = map[string]struct{ spec, words string }{
	"nothing said":          {`{}`, "says nothing"},
	"no rules":              {`{rules: []}`, "says nothing"},
	"mode":                  {`{default: Deny, mode: Audit}`, `supported values: "Enforce", "Observe"`},
	"default":               {`{default: Unset}`, `supported values: "Allow", "Deny"`},
	"no action":             {`{rules: [{hosts: [a.com]}]}`, "spec.rules[0].action: Required value"},
	"action":                {`{rules: [{action: Log}]}`, `supported values: "Allow", "Deny"`},
	"empty selector":        {`{default: Deny, selector: {}}`, "name labels of the workloads"},
	"empty labels":          {`{default: Deny, selector: {matchLabels: {}}}`, "name labels of the workloads"},
	"empty namespaces":      {`{default: Deny, namespaces: {names: []}}`, "write names or matchLabels"},
	"final Deny":            {`{rules: [{action: Deny, final: true}]}`, "final is for rules that allow"},
	"unregistered Deny":     {`{rules: [{action: Deny, unregistered: true}]}`, "unregistered is for rules that allow"},
	"unregistered host":     {`{rules: [{action: Allow, unregistered: true}]}`, "unregistered is for rules that name hosts"},
	"unregistered any":      {`{rules: [{action: Allow, unregistered: true, hosts: [a.com, '*']}]}`, "unregistered is for rules that name hosts"},
	"times":                 {`{rules: [{action: Allow, notBefore: "2030-01-02T00:00:00Z", expires: "2030-01-02T00:00:00Z"}]}`, "expires is not after notBefore"},
	"no time":               {`{rules: [{action: Allow, expires: tomorrow}]}`, "spec.rules[0].expires"},
	"methods of TLS":        {`{rules: [{action: Allow, methods: [GET], protocols: [TLS]}]}`, "are seen in HTTP only"},
	"paths of TCP and HTTP": {`{rules: [{action: Allow, paths: [/], protocols: [HTTP, TCP]}]}`, "are seen in HTTP only"},
	"protocol":              {`{rules: [{action: Allow, protocols: [HTTPS]}]}`, `supported values: "HTTP", "TLS", "TCP"`},
	"port":                  {`{rules: [{action: Allow, ports: [0]}]}`, "spec.rules[0].ports[0]"},
	"method":                {`{rules: [{action: Allow, methods: [get]}]}`, "methods are in upper case"},
	"path":                  {`{rules: [{action: Allow, paths: [v1]}]}`, `a path begins with "/"`},
	"header without value":  {`{rules: [{action: Allow, headers: [{name: a}]}]}`, "value: Required value"},
	"names twice":           {`{rules: [{name: a, action: Deny}, {action: Deny}, {name: a, action: Deny}]}`, "two rules have the same name"},
	"named selector":        {`{rules: [{name: selector, action: Deny}]}`, "selector is what a denial is called by"},
	"named default":         {`{rules: [{name: default, action: Deny}]}`, "default is what the policy's default is called"},
	"many rules":            {`{rules: ` + repeated(257, "{name: r%d, action: Deny}") + `}`, "must have at most 256 items"},
	"many hosts":            {`{rules: [{action: Allow, hosts: ` + repeated(257, "h%d.com") + `}]}`, "must have at most 256 items"},
	"many ports":            {`{rules: [{action: Allow, ports: ` + repeated(65, "%d") + `}]}`, "must have at most 64 items"},
	"many paths":            {`{rules: [{action: Allow, paths: ` + repeated(65, "/%d") + `}]}`, "must have at most 64 items"},
	"long reason":           {`{rules: [{action: Allow, reason: ` + strings.Repeat("r", 257) + `}]}`, "may not be more than 256"},
	"unknown field":         {`{default: Deny, rule: []}`, `unknown field "spec.rule"`},
}

// takenSpecs are specs at the limits, beside those that admission's tests have.
var takenSpecs = []string{
	`{rules: ` + repeated(256, "{name: r%d, action: Deny}") + `}`,
	`{rules: [{action: Allow, hosts: ` + repeated(256, "h%d.com") + `, ports: ` + repeated(64, "%d") + `, paths: ` + repeated(64, "/%d") + `}]}`,
	`{rules: [{action: Deny, final: false, unregistered: false, reason: ` + strings.Repeat("r", 256) + `}]}`,
	`{rules: [{action: Allow, methods: [], protocols: [TLS]}]}`,
}

// TestCRDOnAServer: a real API server refuses by the CRD alone what it can, and takes what admission takes.
func TestCRDOnAServer(t *testing.T) {
	config := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true, CRDs: []string{policyCRD}}).Config
	policies := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "egresspolicies"}).Namespace("default")
	apply := func(o *unstructured.Unstructured) error {
		_, err := policies.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	for name, c := range refusedByCRD {
		o := policyOf(t, c.spec)
		if err := apply(o); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.words)
		}
		if !refused(t, o) {
			t.Errorf("%s: admission takes it", name)
		}
	}
	for _, o := range goodPolicies(t) {
		if refused(t, o) {
			t.Errorf("admission does not take %s", o.GetName())
		}
		o.SetNamespace("default")
		if err := apply(o); err != nil {
			t.Errorf("%s: %v", o.GetName(), err)
		}
	}
	printsColumns(t, config, policies)
}

// printsColumns holds what kubectl get shows of a policy and of its status.
func printsColumns(t *testing.T, config *rest.Config, policies dynamic.ResourceInterface) {
	o := policyOf(t, `{rules: [{action: Deny}, {action: Deny}]}`)
	if _, err := policies.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	status := `{"status": {"rules": 2, "observedRevision": "abc", "proxies": {"selected": 2, "current": 1}, "conditions": [
		{"type": "egress.sallyport.io/Accepted", "status": "True", "observedGeneration": 1}, {"type": "Enforced", "status": "False"}]}}`
	if _, err := policies.Patch(t.Context(), o.GetName(), types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	raw, err := kubernetes.NewForConfigOrDie(config).RESTClient().Get().AbsPath("/apis/egress.sallyport.io/v1alpha1/namespaces/default/egresspolicies").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range table.ColumnDefinitions {
		names = append(names, c.Name)
	}
	if len(table.Rows) != 1 || len(names) != 6 {
		t.Fatalf("columns %v, %d rows", names, len(table.Rows))
	}
	if got, want := fmt.Sprint(names, table.Rows[0].Cells[:5]), "[Name Mode Rules Accepted Enforced Age] [policy Enforce 2 True False]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func policyOf(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{apiVersion: egress.sallyport.io/v1alpha1, kind: EgressPolicy, metadata: {name: policy, namespace: default}, spec: "+spec+"}"), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// goodPolicies are those that admission's tests have, and takenSpecs.
func goodPolicies(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	archive, err := txtar.ParseFile("../config/admission/testdata/egresspolicy-good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, string(archive.Files[0].Data))
	if len(all) == 0 {
		t.Fatal("there are no good policies")
	}
	for _, spec := range takenSpecs {
		all = append(all, policyOf(t, spec))
	}
	return all
}

// refused says whether admission refuses an object, or cannot read it.
func refused(t *testing.T, o *unstructured.Unstructured) bool {
	t.Helper()
	content, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read := decode.File("policy.json", content)
	findings := read.Findings
	for _, object := range read.Objects {
		findings = append(findings, admission.Validate(object)...)
	}
	return admission.Refused(findings)
}
