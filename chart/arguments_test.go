package chart

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The gateway's arguments and environment are the agent's: what it misses in the end is Envoy.
func TestAgentTakesTheGatewaysArguments(t *testing.T) {
	const agent = "../bin/sallyport-agent"
	if _, err := os.Stat(agent); err != nil {
		t.Skipf("%v: run `make build`", err)
	}
	for name, values := range valueSets(t) {
		if name == "bare" { // it has no gateway
			continue
		}
		t.Run(name, func(t *testing.T) {
			gateway := find(t, objects(t, template(t, "--values", values)), "Deployment", "istio-egressgateway")
			args, env := containerOf(t, gateway)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, agent, args...)
			cmd.Env = append(env, "ENVOY=/nonexistent/envoy")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "/nonexistent/envoy") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// containerOf gives the arguments of a workload's first container, and its environment as its pod could have it.
func containerOf(t *testing.T, workload *unstructured.Unstructured) (args, env []string) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("%d containers, %v", len(containers), err)
	}
	container := containers[0].(map[string]any)
	if args, _, err = unstructured.NestedStringSlice(container, "args"); err != nil {
		t.Fatal(err)
	}
	ofPod := map[string]string{
		"metadata.name": "istio-egressgateway-1", "metadata.namespace": namespace, "status.podIPs": "10.0.0.1,fd00::1",
		"spec.serviceAccountName": "istio-egressgateway", "limits.cpu": "2",
	}
	list, _, err := unstructured.NestedSlice(container, "env")
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range list {
		variable := variable.(map[string]any)
		value, ok := variable["value"].(string)
		if !ok {
			path, _, _ := unstructured.NestedString(variable, "valueFrom", "fieldRef", "fieldPath")
			resource, _, _ := unstructured.NestedString(variable, "valueFrom", "resourceFieldRef", "resource")
			if value, ok = ofPod[path+resource]; !ok {
				t.Fatalf("%v: where does it come from?", variable)
			}
		}
		env = append(env, variable["name"].(string)+"="+value)
	}
	return args, env
}
