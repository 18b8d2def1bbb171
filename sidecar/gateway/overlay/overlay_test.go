package overlay

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestRefused: what is refused is named, with what to do.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ key, text, want string }{
		"another object":       {"daemonset", "{}", "ConfigMap shop/web: data.daemonset: no object of a gateway is called so: write deployment, horizontalPodAutoscaler"},
		"no YAML":              {"deployment", "spec: [", "data.deployment: it is no YAML"},
		"no object":            {"deployment", "hello", `"hello": write the object's fields`},
		"a field twice":        {"deployment", "spec: {replicas: 1, replicas: 2}", "already set"},
		"much":                 {"deployment", "#" + strings.Repeat("x", longestText), "write at most 65536"},
		"image":                {"deployment", "spec: {template: {spec: {containers: [{name: istio-proxy, image: evil}]}}}", `spec.template.spec.containers[0].image: "evil": parameters do not set it: remove it`},
		"environment":          {"deployment", "spec: {template: {spec: {containers: [{name: istio-proxy, env: [{name: A, value: secret}]}]}}}", "containers[0].env: a list of 1: parameters"},
		"another container":    {"deployment", "spec: {template: {spec: {containers: [{name: mine, image: evil}]}}}", "containers[0]: an object: a gateway's pods have one container"},
		"no name":              {"deployment", "spec: {template: {spec: {containers: [{resources: {}}]}}}", "write what is about {name: istio-proxy}"},
		"containers replaced":  {"deployment", "spec: {template: {spec: {containers: [{$patch: replace}]}}}", "containers[0]: an object"},
		"pod replaced":         {"deployment", "spec: {template: {spec: {$patch: replace}}}", "spec.template.spec.$patch"},
		"order of containers":  {"deployment", "spec: {template: {spec: {$setElementOrder/containers: []}}}", "$setElementOrder"},
		"pod removed":          {"deployment", "spec: {template: {spec: null}}", "spec.template.spec: null: write an object"},
		"all removed":          {"deployment", "spec: null", "spec: null: write an object"},
		"security":             {"deployment", "spec: {template: {spec: {securityContext: {runAsUser: 0}}}}", "securityContext: an object: parameters"},
		"host":                 {"deployment", "spec: {template: {spec: {hostNetwork: true}}}", "hostNetwork: true: parameters do not set it"},
		"account":              {"deployment", "spec: {template: {spec: {serviceAccountName: admin}}}", `serviceAccountName: "admin"`},
		"claims":               {"deployment", "spec: {template: {spec: {containers: [{name: istio-proxy, resources: {claims: []}}]}}}", "resources.claims: a list of 0"},
		"the mesh's label":     {"deployment", "spec: {template: {metadata: {labels: {sidecar.istio.io/inject: 'true'}}}}", `labels[sidecar.istio.io/inject]: "true": the mesh's own`},
		"a Gateway's label":    {"service", "metadata: {labels: {gateway.networking.k8s.io/gateway-name: other}}", "the mesh's own"},
		"an injector":          {"deployment", "spec: {template: {metadata: {annotations: {vault.hashicorp.com/agent-inject: 'true'}}}}", "other programs put something into pods"},
		"AppArmor":             {"deployment", "spec: {template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/istio-proxy: unconfined}}}}", "it gives pods an identity, a network or rights"},
		"a cloud's identity":   {"serviceAccount", "metadata: {annotations: {eks.amazonaws.com/role-arn: admin}}", "metadata.annotations: an object: parameters do not set it"},
		"number as label":      {"service", "metadata: {labels: {rank: 1}}", "labels[rank]: 1: write a text"},
		"directive in labels":  {"service", "metadata: {labels: {$patch: replace}}", "labels[$patch]"},
		"owner":                {"service", "metadata: {ownerReferences: []}", "metadata.ownerReferences"},
		"finalizers":           {"service", "metadata: {finalizers: [a]}", "metadata.finalizers"},
		"name":                 {"service", "metadata: {name: other}", `metadata.name: "other"`},
		"selector":             {"service", "spec: {selector: {app: other}}", "spec.selector: an object"},
		"external name":        {"service", "spec: {type: ExternalName, externalName: a.test}", "spec.externalName"},
		"external type":        {"service", "spec: {type: ExternalName}", `spec.type: "ExternalName": write LoadBalancer or NodePort or ClusterIP`},
		"somebody's addresses": {"service", "spec: {externalIPs: [192.0.2.1]}", "spec.externalIPs"},
		"target":               {"service", "spec: {ports: [{port: 80, targetPort: 15000}]}", "spec.ports[0].targetPort: 15000"},
		"a listener's port":    {"service", "spec: {ports: [{port: 80, $patch: delete}]}", "a listener's port is its Gateway's to close"},
		"ports replaced":       {"service", "spec: {ports: [{$patch: replace}]}", "ports[0].$patch"},
		"what is counted":      {"horizontalPodAutoscaler", "spec: {scaleTargetRef: {kind: Deployment, name: other}}", "spec.scaleTargetRef: an object"},
		"what is kept":         {"podDisruptionBudget", "spec: {selector: {}}", "spec.selector: an object"},
		"another kind":         {"podDisruptionBudget", "{apiVersion: v1, kind: Pod}", `apiVersion: "v1": write policy/v1`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read("shop", "web", map[string]string{c.key: c.text}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// service is one with a port for TCP and UDP.
func service() *corev1.Service {
	port := func(n int32, p corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: strings.ToLower(string(p)), Port: n, TargetPort: intstr.FromInt32(n), Protocol: p}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
			port(15021, corev1.ProtocolTCP), port(443, corev1.ProtocolUDP), port(443, corev1.ProtocolTCP),
		}},
	}
}

func read(t *testing.T, name string, key Key, text string) *Set {
	t.Helper()
	s, err := Read("shop", name, map[string]string{string(key): text})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestService patches one, twice.
func TestService(t *testing.T) {
	before := service()
	got, err := Apply(Service, before,
		read(t, "class", Service, "metadata: {annotations: {balancer: internal, size: big}}\nspec: {externalTrafficPolicy: Local, type: NodePort}"),
		read(t, "own", Service, "metadata: {annotations: {size: null}}\nspec: {ports: [{port: 443, nodePort: 30443}, {port: 443, protocol: UDP, nodePort: 30444}, {port: 15021, $patch: delete}]}"))
	if err != nil {
		t.Fatal(err)
	}
	want := service()
	want.Annotations = map[string]string{"balancer": "internal"}
	want.Spec.ExternalTrafficPolicy, want.Spec.Type = corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceTypeNodePort
	want.Spec.Ports = want.Spec.Ports[1:]
	want.Spec.Ports[0].NodePort, want.Spec.Ports[1].NodePort = 30444, 30443
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(service(), before); diff != "" {
		t.Errorf("it is changed itself: %s", diff)
	}
}

// TestDoesNotFit are patches that may be, and do not fit the object.
func TestDoesNotFit(t *testing.T) {
	for text, want := range map[string]string{
		"spec: {ports: [{port: 8080, nodePort: 30080}]}":                "spec.ports[0].port: 8080: the Service has no such port",
		"spec: {ports: [{port: 443, nodePort: '30080'}]}":               `spec.ports[0].nodePort: "30080": write a port number`,
		"spec: {ports: [{port: 443, nodePort: 99999}]}":                 "nodePort: 99999",
		"spec: {loadBalancerSourceRanges: internal}":                    "loadBalancerSourceRanges",
		"spec: {sessionAffinityConfig: {clientIP: {timeoutSecond: 1}}}": "timeoutSecond",
		"metadata: {labels: {team: b}}":                                 `metadata.labels[team]: "b": the Gateway has it as "a"`,
		"metadata: {labels: {team: null}}":                              "metadata.labels[team]: null",
	} {
		_, err := Apply(Service, service(), read(t, "class", Service, "metadata: {labels: {more: a}}"), read(t, "own", Service, text))
		if err == nil || !strings.Contains(err.Error(), "ConfigMap shop/own: data.service: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// deployment is one that is closed in many ways.
func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "a"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{
					ServiceAccountName: "web", AutomountServiceAccountToken: new(false), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway}},
					Volumes:                   []corev1.Volume{{Name: "run"}},
					Containers: []corev1.Container{{
						Name: "istio-proxy", Image: "proxy", Args: []string{"proxy"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi"), "cpu": resource.MustParse("2")}},
					}},
				},
			},
		},
	}
}

// settable takes out of a Deployment what parameters may set.
func settable(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	d.Labels, d.Annotations, d.Spec.Template.Labels, d.Spec.Template.Annotations = nil, nil, nil, nil
	d.Spec.Replicas, d.Spec.Strategy = nil, appsv1.DeploymentStrategy{}
	p := &d.Spec.Template.Spec
	p.NodeSelector, p.Affinity, p.Tolerations, p.TopologySpreadConstraints, p.PriorityClassName, p.TerminationGracePeriodSeconds = nil, nil, nil, nil, "", nil
	for i := range p.Containers {
		p.Containers[i].Resources = corev1.ResourceRequirements{}
	}
	return d
}

// FuzzDeployment: whatever is written, what may not be set stays as it was, and so do the labels that the Gateway says.
func FuzzDeployment(f *testing.F) {
	for _, text := range []string{
		"", "{}", "spec: {replicas: 3}", "spec: {strategy: {$patch: replace, type: Recreate}}", "spec: {strategy: {$retainKeys: [type], type: Recreate}}",
		"spec: {strategy: {$retainKeys: [{type: Recreate}]}}",
		"spec: {template: {spec: {containers: [{name: istio-proxy, resources: {limits: {memory: 2Gi}}}]}}}",
		"spec: {template: {spec: {containers: [{name: istio-proxy, resources: {limits: {$patch: replace}, requests: null}}, {name: istio-proxy}]}}}",
		"spec: {template: {spec: {topologySpreadConstraints: [{$patch: replace}], tolerations: [{operator: Exists}], nodeSelector: {$patch: delete}}}}",
		"spec: {template: {spec: {affinity: {$patch: delete}, $deleteFromPrimitiveList/volumes: [run]}}}",
		"spec: {template: {metadata: {labels: {app: other}}}}", "spec: {template: {metadata: {labels: {more: '1'}, annotations: {$retainKeys: []}}}}",
		"spec: {template: {spec: {topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, $patch: delete}, {topologyKey: zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]}}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read("shop", "web", map[string]string{"deployment": text})
		if err != nil {
			return
		}
		before := deployment()
		got, err := Apply(Deployment, before, s)
		if err != nil {
			return
		}
		if diff := cmp.Diff(settable(before), settable(got)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		if got.Labels["team"] != "a" || got.Spec.Template.Labels["app"] != "web" {
			t.Errorf("%q: labels %v, %v", text, got.Labels, got.Spec.Template.Labels)
		}
	})
}

// A directive whose values are of another type than Kubernetes' library reads ends with an error: the library panics, and the controller with it.
func TestDirectivesOfAnotherType(t *testing.T) {
	for _, text := range []string{"spec: {strategy: {$retainKeys: [{type: Recreate}]}}", "spec: {strategy: {$retainKeys: [[type]], rollingUpdate: {maxSurge: 1}}}"} {
		_, err := Apply(Deployment, deployment(), read(t, "own", Deployment, text))
		if wrong := (Error{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "it is no patch of such an object") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDeployment: what is set counts, the rest of the list that it is in stays.
func TestDeployment(t *testing.T) {
	got, err := Apply(Deployment, deployment(), read(t, "own", Deployment, `
spec:
  replicas: 3
  template:
    metadata: {annotations: {prometheus.io/scrape: "true"}}
    spec:
      priorityClassName: high
      topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]
      containers: [{name: istio-proxy, resources: {limits: {memory: 2Gi}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	p := got.Spec.Template.Spec
	if *got.Spec.Replicas != 3 || p.PriorityClassName != "high" || len(p.TopologySpreadConstraints) != 2 || got.Spec.Template.Annotations["prometheus.io/scrape"] != "true" {
		t.Errorf("%+v", got.Spec)
	}
	if l := p.Containers[0].Resources.Limits; l.Memory().String() != "2Gi" || l.Cpu().String() != "2" {
		t.Errorf("limits %v", l)
	}
}
