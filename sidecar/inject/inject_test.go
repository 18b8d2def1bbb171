package inject

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestDecision is Istio's table of who is injected.
func TestDecision(t *testing.T) {
	enabled, disabled := map[string]string{"istio-injection": "enabled"}, map[string]string{"istio-injection": "disabled"}
	rev := func(name string) map[string]string { return map[string]string{"istio.io/rev": name} }
	both := map[string]string{"istio-injection": "enabled", "istio.io/rev": "other"}
	inject := func(v string) map[string]string { return map[string]string{"sidecar.istio.io/inject": v} }
	for _, c := range []struct {
		name                           string
		namespace, labels, annotations map[string]string
		namespaceName, revision        string
		spec                           corev1.PodSpec
		byDefault, notDefault, want    bool
		why                            string
	}{
		{name: "enabled", namespace: enabled, want: true},
		{name: "enabled, label false", namespace: enabled, labels: inject("false"), why: `the pod says`},
		{name: "enabled, annotation false", namespace: enabled, annotations: inject("false"), why: `the pod says`},
		{name: "enabled, label true over annotation false", namespace: enabled, labels: inject("true"), annotations: inject("false"), want: true},
		{name: "enabled, label false over annotation true", namespace: enabled, labels: inject("no"), annotations: inject("true"), why: "the pod says"},
		{name: "disabled", namespace: disabled, why: "istio-injection=disabled"},
		{name: "disabled, label true", namespace: disabled, labels: inject("true"), why: "istio-injection=disabled"},
		{name: "neither", why: "has not the label"},
		{name: "neither, label true", labels: inject("true"), want: true},
		{name: "neither, annotation yes", annotations: inject("yes"), want: true},
		{name: "neither, on by default", byDefault: true, want: true},
		{name: "neither, on by default, label false", byDefault: true, labels: inject("false"), why: "the pod says"},
		{name: "another word", namespace: map[string]string{"istio-injection": "true"}, why: "neither enabled nor disabled"},
		{name: "revision", namespace: rev("canary"), revision: "canary", want: true},
		{name: "revision, label false", namespace: rev("canary"), revision: "canary", labels: inject("false"), why: "the pod says"},
		{name: "another revision", namespace: rev("canary"), why: `for revision "canary", this injector is revision "default"`},
		{name: "another revision, label true", namespace: rev("canary"), labels: inject("true"), why: `for revision "canary"`},
		{name: "default revision by name", namespace: rev("default"), want: true},
		{name: "pod's revision", labels: rev("canary"), revision: "canary", want: true},
		{name: "pod's other revision", labels: rev("canary"), why: `for revision "canary"`},
		{name: "namespace's revision counts", namespace: rev("canary"), labels: rev("default"), why: `for revision "canary"`},
		{name: "injection counts over revision", namespace: both, want: true},
		{name: "enabled is for the default revision", namespace: enabled, revision: "canary", notDefault: true, why: `for the default revision`},
		{name: "label true is for the default revision", labels: inject("true"), revision: "canary", notDefault: true, why: `for the default revision`},
		{name: "enabled is for who serves the default too", namespace: enabled, revision: "canary", want: true},
		{name: "host network", namespace: enabled, spec: corev1.PodSpec{HostNetwork: true}, why: "hostNetwork"},
		{name: "windows", namespace: enabled, spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}}, why: "Windows"},
		{name: "kube-system", namespaceName: "kube-system", namespace: enabled, labels: inject("true"), why: "never"},
		{name: "kube-public", namespaceName: "kube-public", namespace: enabled, why: "never"},
		{name: "mirror", namespace: enabled, annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}, why: "static"},
		{name: "a status without a proxy", namespace: enabled, annotations: map[string]string{"sidecar.istio.io/status": "{}"}, want: true},
		{
			name: "a proxy already", namespace: enabled, annotations: map[string]string{"sidecar.istio.io/status": "{}"},
			spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "istio-proxy"}}}, why: "already",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Default()
			s.EnableNamespacesByDefault, s.DefaultRevision = c.byDefault, !c.notDefault
			if c.revision != "" {
				s.Revision = c.revision
			}
			ns := Namespace{Name: "shop", Labels: c.namespace}
			if c.namespaceName != "" {
				ns.Name = c.namespaceName
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: c.labels, Annotations: c.annotations}, Spec: c.spec}
			result, err := Inject(pod, ns, s)
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Pod != nil; got != c.want || !strings.Contains(result.Reason, c.why) || !got && c.why == "" {
				t.Errorf("injected: %v (%s), want %v (%s)", got, result.Reason, c.want, c.why)
			}
		})
	}
}

func TestWorkloads(t *testing.T) {
	owned := func(kind, version, name string, labels map[string]string) *corev1.Pod {
		yes := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			GenerateName: name + "-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, Controller: &yes}},
		}}
	}
	for _, c := range []struct {
		pod         *corev1.Pod
		name, owner string
	}{
		{owned("ReplicaSet", "apps/v1", "web-7d", map[string]string{"pod-template-hash": "7d"}), "web", "kubernetes://apis/apps/v1/namespaces/shop/deployments/web"},
		{owned("ReplicaSet", "apps/v1", "web", nil), "web", "kubernetes://apis/apps/v1/namespaces/shop/replicasets/web"},
		{owned("StatefulSet", "apps/v1", "db", nil), "db", "kubernetes://apis/apps/v1/namespaces/shop/statefulsets/db"},
		{owned("Job", "batch/v1", "report-29384756", nil), "report", "kubernetes://apis/batch/v1/namespaces/shop/cronjobs/report"},
		{owned("Job", "batch/v1", "import", nil), "import", "kubernetes://apis/batch/v1/namespaces/shop/jobs/import"},
		{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone"}}, "alone", "kubernetes://apis/v1/namespaces/shop/pods/alone"},
		{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}}, "some", "kubernetes://apis/v1/namespaces/shop/pods/some"},
		{&corev1.Pod{}, "", ""},
	} {
		if got := workloadOf(c.pod, "shop"); got.name != c.name || got.owner != c.owner {
			t.Errorf("got %+v, want %s %s", got, c.name, c.owner)
		}
	}
}

func TestSettingsMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"imgae: a":                        `unknown field "imgae"`,
		"image: [a]":                      "image",
		"a: 1\na: 2":                      `"a" already set`,
		"terminationDrainDuration: later": "later",
		"resources: {limits: {cpu: x}}":   "quantities must match",
	} {
		if _, err := ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", text, want, err)
		}
	}
	for _, empty := range []string{"", "{}", "null", "# nothing\n"} {
		if _, err := ParseSettings([]byte(empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

// TestAgain: another webhook adds a container to an injected pod; its probe is rewritten, the first one's stays.
func TestAgain(t *testing.T) {
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	probe := func(port int32) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}}
	}
	for _, native := range []Native{NativeNever, NativeAuto} {
		s := Default()
		s.NativeSidecar = native
		first, err := Inject(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "one", ReadinessProbe: probe(1)}}}}, ns, s)
		if err != nil {
			t.Fatal(err)
		}
		first.Pod.Spec.Containers = append(first.Pod.Spec.Containers, corev1.Container{Name: "two", LivenessProbe: probe(2)})
		second, err := Inject(first.Pod, ns, s)
		if err != nil || second.Pod == nil {
			t.Fatalf("%+v %v", second, err)
		}
		proxy := findProxy(&second.Pod.Spec)
		const want = `{"/app-health/one/readyz":{"tcpSocket":{"port":1}},"/app-health/two/livez":{"tcpSocket":{"port":2}}}`
		if got := proxy.Env[len(proxy.Env)-1].Value; got != want || proxy.ReadinessProbe.HTTPGet.Port.IntValue() != ReadyPort {
			t.Errorf("%s", got)
		}
		if third, err := Inject(second.Pod, ns, s); err != nil || third.Pod != nil {
			t.Errorf("a third time: %+v %v", third, err)
		}
	}
}

// TestNative: the form of the proxy follows the setting, what the cluster is, and the pod, in this order of weight.
func TestNative(t *testing.T) {
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	for _, c := range []struct {
		setting, annotation string
		old                 bool
		want                bool
		refused             bool
	}{
		{setting: "", want: true},
		{setting: "nativeSidecar: auto", old: true, want: false},
		{setting: "nativeSidecar: true", old: true, want: true},
		{setting: `nativeSidecar: "false"`, want: false},
		{setting: "nativeSidecar: false", annotation: "true", want: true},
		{setting: "", annotation: "false", want: false},
		{setting: "", annotation: "true", old: true, refused: true},
	} {
		s, err := ParseSettings([]byte(c.setting))
		if err != nil {
			t.Fatal(err)
		}
		s.NoNative = c.old
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
		if c.annotation != "" {
			pod.Annotations = map[string]string{"sidecar.istio.io/nativeSidecar": c.annotation}
		}
		result, err := Inject(pod, ns, s)
		if c.refused {
			if err == nil || !strings.Contains(err.Error(), "1.29") {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := len(result.Pod.Spec.Containers) == 1; got != c.want {
			t.Errorf("%+v: native %v", c, got)
		}
	}
	if _, err := ParseSettings([]byte("nativeSidecar: perhaps")); err == nil || !strings.Contains(err.Error(), "nativeSidecar") {
		t.Errorf("a setting that is none: %v", err)
	}
	for version, want := range map[string]bool{"v1.28.9": false, "v1.29.0": true, "v1.29.0-rc.1": true, "v1.36.1": true, "v1.30.5-gke.1014001": true, "v2.0.0": true} {
		if got, err := HasNative(version); got != want || err != nil {
			t.Errorf("%s: %v (%v)", version, got, err)
		}
	}
	if _, err := HasNative("new"); err == nil {
		t.Error("a version that is none")
	}
}

// owner permits some changes in one namespace.
type owner struct{ changes, images []string }

func (o owner) Permits(change, ns string) bool {
	return ns == "shop" && slices.Contains(o.changes, change)
}
func (o owner) Images(string) []string { return o.images }

// TestPermissions: what lets traffic around the proxy is refused unless the mesh's owner permits it; the rest is not.
func TestPermissions(t *testing.T) {
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	pod := func(annotations map[string]string, containers ...corev1.Container) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: append([]corev1.Container{{Name: "app"}}, containers...)}}
		p.Annotations = annotations
		return p
	}
	said := func(name, value string) *corev1.Pod { return pod(map[string]string{name: value}) }
	faked := pod(map[string]string{"sidecar.istio.io/status": "{}"}, corev1.Container{Name: ProxyName, Image: "pause"})
	for what, c := range map[string]struct {
		pod    *corev1.Pod
		change string // that must be permitted; "" for none
	}{
		"ports left out":         {said("traffic.sidecar.istio.io/excludeOutboundPorts", "3306"), "excludeOutboundPorts"},
		"ranges left out":        {said("traffic.sidecar.istio.io/excludeOutboundIPRanges", "0.0.0.0/0"), "excludeOutboundIPRanges"},
		"only some ranges":       {said("traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.0/8"), "includeOutboundIPRanges"},
		"no ranges":              {said("traffic.sidecar.istio.io/includeOutboundIPRanges", ""), "includeOutboundIPRanges"},
		"all ranges":             {said("traffic.sidecar.istio.io/includeOutboundIPRanges", "*"), ""},
		"interfaces":             {said("traffic.sidecar.istio.io/excludeInterfaces", "eth0"), "excludeInterfaces"},
		"nothing caught":         {said("sidecar.istio.io/interceptionMode", "NONE"), "interceptionMode"},
		"as it is":               {said("sidecar.istio.io/interceptionMode", "REDIRECT"), ""},
		"DNS":                    {said("proxy.istio.io/config", `proxyMetadata: {ISTIO_META_DNS_CAPTURE: "false"}`), "dnsCapture"},
		"DNS, misspelt":          {said("proxy.istio.io/config", `proxyMetadata: {ISTIO_META_DNS_CAPTURE: "nope"}`), "dnsCapture"},
		"another Envoy":          {said("proxy.istio.io/config", `proxyMetadata: {ENVOY: /var/run/sallyport/mine}`), "containers"},
		"another control plane":  {said("sidecar.istio.io/discoveryAddress", "evil.test:15012"), "discoveryAddress"},
		"and by ProxyConfig":     {said("proxy.istio.io/config", "discoveryAddress: evil.test:15012"), "discoveryAddress"},
		"an image":               {said("sidecar.istio.io/proxyImage", "evil.test/proxy:1"), "proxyImage"},
		"an image of the mirror": {said("sidecar.istio.io/proxyImage", "mirror.test/proxy:1"), ""},
		"a faked status":         {faked, "containers"},
		"the proxy's command":    {pod(nil, corev1.Container{Name: ProxyName, Image: "auto", Command: []string{"sleep"}}), "containers"},
		"the proxy's image":      {pod(nil, corev1.Container{Name: ProxyName, Image: "evil"}), "proxyImage"},
		"the proxy's resources":  {pod(nil, corev1.Container{Name: ProxyName, Image: "auto", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}), ""},
		"inbound ports left out": {said("traffic.sidecar.istio.io/excludeInboundPorts", "22"), ""},
		"how much it may use":    {said("sidecar.istio.io/proxyCPU", "10m"), ""},
	} {
		s := Default()
		s.Permissions = owner{images: []string{"mirror.test/*"}}
		_, err := Inject(c.pod, ns, s)
		switch {
		case c.change == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.change != "" && (err == nil || !strings.Contains(err.Error(), "changes: ["+c.change+"]") || !strings.Contains(err.Error(), "sallyport.injection.allow")):
			t.Errorf("%s: %v", what, err)
		}
		s.Permissions = owner{changes: []string{c.change}, images: []string{"mirror.test/*"}}
		if _, err := Inject(c.pod, ns, s); err != nil {
			t.Errorf("%s, permitted: %v", what, err)
		}
		other := Namespace{Name: "other", Labels: ns.Labels}
		if _, err := Inject(c.pod, other, s); c.change != "" && err == nil {
			t.Errorf("%s, in another namespace: no error", what)
		}
	}
	s := Default()
	s.Permissions = owner{}
	first, err := Inject(pod(nil), ns, s)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Inject(first.Pod, ns, s); err != nil || again.Pod != nil {
		t.Errorf("a pod of our own: %v", err)
	}
	bare := first.Pod.DeepCopy()
	bare.Spec.InitContainers = bare.Spec.InitContainers[1:]
	if _, err := Inject(bare, ns, s); err == nil {
		t.Error("a pod whose traffic nothing catches is taken for one of ours")
	}
}

// TestQUIC: UDP 443 is refused where what nobody registered stays in, unless the settings say otherwise.
func TestQUIC(t *testing.T) {
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	for _, c := range []struct {
		settings     string
		closed, want bool
	}{{"", true, true}, {"", false, false}, {"redirect: {blockQUIC: false}", true, false}, {"redirect: {blockQUIC: true}", false, true}} {
		s, err := ParseSettings([]byte(c.settings))
		if err != nil {
			t.Fatal(err)
		}
		s.Closed = func(string, map[string]string) bool { return c.closed }
		result, err := Inject(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}, ns, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(result.Pod.Spec.InitContainers[0].Args, "--block-quic"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Pods tell clients that they take mutual TLS, unless it is known that the mesh speaks none.
func TestMutualTLSIsTold(t *testing.T) {
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	for none, want := range map[bool]string{false: "istio", true: ""} {
		s := Default()
		s.NoMutualTLS = none
		result, err := Inject(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}, ns, s)
		if err != nil {
			t.Fatal(err)
		}
		if got, said := result.Pod.Labels["security.istio.io/tlsMode"]; got != want || said != (want != "") {
			t.Errorf("a mesh without mutual TLS (%v): the label says %q", none, got)
		}
	}
}
