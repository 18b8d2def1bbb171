package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/world"
)

// clusterLab is a cluster that commands are clusterLab about.
type clusterLab struct {
	*testing.T
	kubeconfig string
	client     kubernetes.Interface
	entries    dynamic.NamespaceableResourceInterface
}

func startClusterLab(t *testing.T) *clusterLab {
	server := apiserver.StartWith(t, apiserver.Options{})
	a := &clusterLab{T: t, kubeconfig: server.Kubeconfig, client: kubernetes.NewForConfigOrDie(server.Config)}
	a.entries = dynamic.NewForConfigOrDie(server.Config).Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"})
	for name, labels := range map[string]map[string]string{"istio-system": nil, "shop": {"istio-injection": "enabled"}} {
		a.made(a.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}))
	}
	a.made(a.client.CoreV1().ConfigMaps("istio-system").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio"}, Data: map[string]string{"mesh": "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"},
	}, metav1.CreateOptions{}))
	return a
}

func (a *clusterLab) made(_ any, err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *clusterLab) entry(text string) {
	a.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		a.Fatal(err)
	}
	a.made(a.entries.Namespace(object.GetNamespace()).Create(a.Context(), object, metav1.CreateOptions{}))
}

// run calls a command with the cluster's flags.
func (a *clusterLab) run(cmd *cobra.Command, args ...string) (stdout, stderr string, code int) {
	a.Helper()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append(args, "--kubeconfig", a.kubeconfig))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(a.Context())
	if err != nil {
		errs.WriteString(err.Error())
	}
	return out.String(), errs.String(), exitCode(err)
}

// as gives the access of a user who may do nothing but what the rules say.
func (a *clusterLab) as(user string, rules ...rbacv1.PolicyRule) *clusterLab {
	a.Helper()
	a.made(a.client.RbacV1().ClusterRoles().Create(a.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}))
	a.made(a.client.RbacV1().ClusterRoleBindings().Create(a.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}},
	}, metav1.CreateOptions{}))
	a.inForce(user, rules)
	text, err := os.ReadFile(a.kubeconfig)
	if err != nil {
		a.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		a.Fatal(err)
	}
	config["users"].([]any)[0].(map[string]any)["user"].(map[string]any)["as"] = user
	if text, err = yaml.Marshal(config); err != nil {
		a.Fatal(err)
	}
	limited := *a
	limited.kubeconfig = filepath.Join(a.TempDir(), "kubeconfig")
	if err := os.WriteFile(limited.kubeconfig, text, 0o600); err != nil {
		a.Fatal(err)
	}
	return &limited
}

// inForce waits until the API server grants what the rules say: it reads them some moments after they were written.
func (a *clusterLab) inForce(user string, rules []rbacv1.PolicyRule) {
	a.Helper()
	for _, rule := range rules {
		if len(rule.APIGroups) == 0 {
			continue // a rule about URLs
		}
		for _, verb := range rule.Verbs {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0],
			}}}
			if len(rule.ResourceNames) > 0 {
				review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
			}
			if resource, part, whole := strings.Cut(rule.Resources[0], "/"); whole {
				review.Spec.ResourceAttributes.Resource, review.Spec.ResourceAttributes.Subresource = resource, part
			}
			if err := world.Within(a.Context(), 2*time.Minute, func() error {
				got, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(a.Context(), review, metav1.CreateOptions{})
				if err == nil && !got.Status.Allowed {
					err = fmt.Errorf("%s may not yet %s %s: %s", user, verb, rule.Resources[0], got.Status.Reason)
				}
				return err
			}); err != nil {
				a.Fatal(err)
			}
		}
	}
}

const (
	shopExternal = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: external, namespace: shop}\nspec: {hosts: [external.com], location: MESH_EXTERNAL, ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS, exportTo: ['.']}\n"
	shopPlain    = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: plain, namespace: shop}\nspec: {hosts: [plain.com], location: MESH_EXTERNAL, ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}\n"
	shopRule     = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: external, namespace: shop}\nspec: {host: external.com, trafficPolicy: {tls: {mode: SIMPLE}}}\n"
)

// TestAskACluster asks a real API server; what takes a kubelet is the cluster suite's.
func TestAskACluster(t *testing.T) {
	a := startClusterLab(t)
	a.entry(shopExternal)
	t.Run("lint", a.lint)
	t.Run("explain", a.explain)
	t.Run("check", a.check)
	t.Run("verify", a.verify)
	t.Run("errors", a.refusals)
	t.Run("viewer", a.viewers)
	t.Run("gateways", a.explainGateways)
}

// viewers: the chart's roles for people have what the commands take.
func (a *clusterLab) viewers(t *testing.T) {
	viewer := a.as("viewer", viewerRules(t)...)
	out, errs, code := viewer.run(checkCommand(), "-o", "json")
	var got struct{ NotChecked []string }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitNo {
		t.Fatalf("check: exit %d, %v: %s%s", code, err, out, errs)
	}
	if len(got.NotChecked) != 2 || !strings.HasPrefix(got.NotChecked[0], "the CA's certificates in Secrets: ") || !strings.Contains(got.NotChecked[1], "there is no pod with the label") {
		t.Errorf("check as a viewer: %q", got.NotChecked)
	}
	if out, errs, code := viewer.run(lintCommand()); code != exitDone {
		t.Errorf("lint as a viewer: exit %d, %s%s", code, out, errs)
	}
	for _, from := range []string{"shop/bare", "shop/web", "shop/checkout"} {
		if out, errs, code := viewer.run(explainCommand(), "--from", from, "https://external.com"); code != exitDone {
			t.Errorf("explain from %s as a viewer: exit %d, %s%s", from, code, out, errs)
		}
	}
	if _, errs, _ := viewer.run(auditQueryCommand()); !strings.Contains(errs, "there is no pod with the label app=sallyport-audit") {
		t.Errorf("audit query as a viewer: %s", errs)
	}
}

// viewerRules are those of the chart's roles for people.
func viewerRules(t *testing.T) (rules []rbacv1.PolicyRule) {
	rendered, err := os.ReadFile("../../chart/testdata/default.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(rendered), "\n---\n") {
		var role rbacv1.ClusterRole
		if strings.Contains(document, "name: sallyport-viewer") {
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			rules = append(rules, role.Rules...)
		}
	}
	if len(rules) == 0 {
		t.Fatal("the chart has no such roles")
	}
	return rules
}

func (a *clusterLab) lint(t *testing.T) {
	out, errs, code := a.run(lintCommand(), "-o", "json")
	var got lintResult
	if code != exitDone || json.Unmarshal([]byte(out), &got) != nil && !strings.Contains(out, `"errors": 0`) {
		t.Errorf("a good cluster: exit %d, %s%s", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte(shopPlain+"---\n"+shopRule), 0o600); err != nil {
		t.Fatal(err)
	}
	alone, _, _, _ := call(t, "lint", file)
	out, _, code = a.run(lintCommand(), file)
	const plain, hostless = "requests to plain.com leave the mesh in plain text", "DestinationRule shop/external"
	if code != exitDone || !strings.Contains(out, plain) || strings.Contains(out, hostless) || !strings.Contains(alone, hostless) {
		t.Errorf("files that would be applied: exit %d, %s\nalone: %s", code, out, alone)
	}
	if out, _, _ := a.run(lintCommand()); strings.Contains(out, "plain") {
		t.Errorf("a file was applied: %s", out)
	}
}

func (a *clusterLab) explain(t *testing.T) {
	labels := map[string]string{"app": "web", "version": "v2"}
	a.made(a.client.AppsV1().Deployments("shop").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}},
	}, metav1.CreateOptions{}))
	a.made(a.client.CoreV1().ServiceAccounts("shop").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "checkout"}}, metav1.CreateOptions{}))
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--from shop/web https://external.com", exitDone, "decided by ServiceEntry shop/external"},
		{"--from shop/checkout https://external.com", exitDone, "verdict    allow"},
		{"--from shop/web https://other.com", exitNo, "path       blackhole"}, // the mesh's settings are the cluster's
		{"--from istio-system/yet?app=x https://external.com", exitNo, "verdict    deny"},
		{"--from shop/nobody https://external.com", exitUsage, "--from shop/nobody: there is no pod, deployment, stateful set, daemon set or service account of that name in namespace shop"},
		{"--from shop/web --config-dir . https://external.com", exitUsage, "give one of them"},
	} {
		out, errs, code := a.run(explainCommand(), strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", tt.args, code, tt.code, tt.want, out, errs)
		}
	}
}

func (a *clusterLab) check(t *testing.T) {
	a.made(a.client.CoreV1().ServiceAccounts("shop").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))
	a.made(a.client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{}))
	a.made(a.client.CoreV1().ConfigMaps("istio-system").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: injectorConfigMap}, Data: map[string]string{injectorKey: "image: registry.example/proxy:v1\n"},
	}, metav1.CreateOptions{}))
	out, errs, code := a.run(checkCommand(), "-o", "json")
	var got struct {
		Errors     int
		Findings   []map[string]string
		NotChecked []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitNo {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	for _, want := range []string{
		"Pod shop/bare it runs without a proxy", "Deployment istio-system/sallyport there is no control plane: namespace istio-system",
		"Service istio-system/istio-egressgateway", "MutatingWebhookConfiguration /sallyport-injector-istio-system it is missing",
		"ConfigMap istio-system/istio-ca-root-cert it is missing", "ServiceAccount istio-system/sallyport", "Namespace /shop nothing but their own proxies",
	} {
		found := false
		for _, f := range got.Findings {
			found = found || strings.HasPrefix(f["kind"]+" "+f["namespace"]+"/"+f["name"]+" "+f["message"], want)
		}
		if !found {
			t.Errorf("not said: %s\n%s", want, out)
		}
	}
	if len(got.NotChecked) != 1 || !strings.Contains(got.NotChecked[0], "there is no pod with the label app=sallyport") {
		t.Errorf("not checked: %q", got.NotChecked)
	}
	if out, errs, code := a.run(checkCommand(), "-n", "istio-system"); code != exitNo || strings.Contains(out, "bare") {
		t.Errorf("another namespace: exit %d, %s%s", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: new, namespace: istio-tools}\nspec: {hostNetwork: true, containers: [{name: a, image: a}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: new, namespace: default}\nspec: {hostNetwork: true, containers: [{name: a, image: a}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := a.run(checkCommand(), "-f", file); code != exitNo || !strings.Contains(out, "Pod istio-tools/new") || strings.Contains(out, "default/new") {
		t.Errorf("files: exit %d, %s%s", code, out, errs)
	}
}

func (a *clusterLab) refusals(t *testing.T) {
	for _, cmd := range []*cobra.Command{proxiesCommand(), configCommand(), auditQueryCommand(), auditTailCommand()} {
		args := []string{"--system-namespace", "shop"}
		if cmd.Name() == "config" {
			args = append(args, "shop/web")
		}
		if _, errs, code := a.run(cmd, args...); code != exitFailed || !strings.Contains(errs, "namespace shop: there is no pod with the label app=sallyport") {
			t.Errorf("%s without a control plane: exit %d, %s", cmd.Name(), code, errs)
		}
	}
	nobody := a.as("nobody")
	for _, tt := range []struct {
		cmd  *cobra.Command
		args []string
		want string
	}{
		{proxiesCommand(), nil, `cannot list resource "pods"`},
		{auditQueryCommand(), nil, `cannot list resource "pods"`},
		{lintCommand(), nil, `cannot get resource "configmaps"`},
		{explainCommand(), []string{"--from", "shop/web", "https://external.com"}, `cannot get resource "pods"`},
		{checkCommand(), nil, `cannot get resource "configmaps"`},
		{injectCommand(), []string{"-f", "-"}, `cannot get resource "configmaps"`},
	} {
		out, errs, code := nobody.run(tt.cmd, tt.args...)
		if code != exitFailed || !strings.Contains(errs, "no access: ") || !strings.Contains(errs, tt.want) || !strings.Contains(errs, viewerRole) {
			t.Errorf("%s without rights: exit %d, %s%s", tt.cmd.Name(), code, out, errs)
		}
	}
	some := a.as("some", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	if out, errs, code := some.run(checkCommand()); code == exitDone || !strings.Contains(errs, "not checked: pods: ") {
		t.Errorf("check with some rights: exit %d, %s%s", code, out, errs)
	}
	if out, errs, code := some.run(lintCommand()); code != exitFailed || !strings.Contains(errs, `cannot list resource "namespaces"`) {
		t.Errorf("lint with some rights: exit %d, %s%s", code, out, errs)
	}
	most := a.as("most", rbacv1.PolicyRule{APIGroups: []string{"", "apps", "discovery.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})
	if out, errs, code := most.run(lintCommand()); code != exitNo || !strings.Contains(out, "ServiceEntry") {
		t.Errorf("lint without ServiceEntries: exit %d, %s%s", code, out, errs)
	}
	if out, errs, code := most.run(explainCommand(), "--from", "shop/web", "https://external.com"); code != exitFailed || out != "" || !strings.Contains(errs, "no access: ") {
		t.Errorf("explain without ServiceEntries: exit %d, %s%s", code, out, errs)
	}
}

// TestUnreachableCluster says so soon.
func TestUnreachableCluster(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*cobra.Command{proxiesCommand(), lintCommand(), auditQueryCommand(), checkCommand()} {
		a := &clusterLab{T: t, kubeconfig: kubeconfig}
		if _, errs, code := a.run(cmd); code != exitFailed || !strings.Contains(errs, "the API server at http://127.0.0.1:1") {
			t.Errorf("%s: exit %d, %s", cmd.Name(), code, errs)
		}
	}
	t.Setenv("KUBECONFIG", "/nowhere:"+kubeconfig)
	a := clusterFlags{context: "a"}
	if config, err := a.connect(); err != nil || config.Host != "http://127.0.0.1:1" {
		t.Errorf("--context alone: %+v, %v", config, err)
	}
	a.context = "b"
	if _, err := a.connect(); err == nil || exitCode(err) != exitUsage {
		t.Errorf("no such context: %v", err)
	}
}

func TestCheckUsage(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
	for _, args := range [][]string{{}, {"-o", "xml", "-f", "x"}, {"file"}, {"-f", "/nowhere"}} {
		cmd := checkCommand()
		cmd.SetArgs(args)
		cmd.SetErr(&bytes.Buffer{})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.Execute(); exitCode(err) != exitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestNoAccess names the roles, also where a tunnel was refused, of which only words are left.
func TestNoAccess(t *testing.T) {
	a := &clusterAccess{system: "mesh"}
	refused := errors.New(`unable to upgrade connection: pods "sallyport-1" is forbidden: User "someone" cannot create resource "pods/portforward"`)
	if err := a.noAccess(refused); !strings.Contains(err.Error(), "ClusterRole sallyport-viewer-mesh, with Role sallyport-viewer in namespace mesh") || !errors.Is(err, refused) {
		t.Error(err)
	}
	if err := a.noAccess(nil); err != nil {
		t.Error(err)
	}
	if other := errors.New("other"); !errors.Is(a.noAccess(other), other) {
		t.Error("another error changed")
	}
}
