package inject

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var meshed = Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}

// injectedPod is one that the injector made of a pod with a container.
func injectedPod(t *testing.T, s Settings, annotations map[string]string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	pod.Annotations = annotations
	result, err := Inject(pod, meshed, s)
	if err != nil || result.Pod == nil {
		t.Fatalf("%+v %v", result, err)
	}
	return result.Pod
}

// fillIn does with a pod what the API server, its admission plugins and the webhooks of clouds and of observers do, which add to all containers.
func fillIn(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			c.ImagePullPolicy, c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.PullAlways, corev1.TerminationMessagePathDefault, corev1.TerminationMessageReadFile
			c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("7")}}
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.NotRequired}}
			c.VolumeMounts = append(c.VolumeMounts,
				corev1.VolumeMount{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
				corev1.VolumeMount{Name: "aws-iam-token", MountPath: "/var/run/secrets/eks.amazonaws.com/serviceaccount", ReadOnly: true})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "vault", MountPath: "/vault/secrets"}, corev1.VolumeMount{Name: "apm", MountPath: "/var/run/apm"},
				corev1.VolumeMount{Name: "agent", MountPath: "/opt/agent"})
			c.Env = append(c.Env, corev1.EnvVar{Name: "AWS_ROLE_ARN", Value: "arn:aws:iam::1:role/web"})
			if c.SecurityContext != nil {
				c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
				c.SecurityContext.AllowPrivilegeEscalation, c.SecurityContext.ReadOnlyRootFilesystem = ptr(false), ptr(true)
				if c.SecurityContext.Capabilities != nil {
					c.SecurityContext.Capabilities.Drop = append(c.SecurityContext.Capabilities.Drop, "NET_RAW", "MKNOD")
				}
				c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2"}
				c.SecurityContext.ProcMount = ptr(corev1.DefaultProcMount)
			}
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access-x"}, corev1.Volume{Name: "aws-iam-token"})
}

// TestGenuine: a pod of the injector's own is taken for one however it is filled in, and with containers that others add.
func TestGenuine(t *testing.T) {
	for _, native := range []Native{NativeAuto, NativeNever} {
		for what, annotations := range map[string]map[string]string{
			"plain":            nil,
			"of a ProxyConfig": {"proxy.istio.io/config": `{concurrency: 3, terminationDrainDuration: 40s, holdApplicationUntilProxyStarts: true, proxyMetadata: {MORE: "1", ISTIO_META_DNS_CAPTURE: "true"}}`},
			"of annotations":   {"sidecar.istio.io/logLevel": "debug", "sidecar.istio.io/proxyCPU": "10m", "traffic.sidecar.istio.io/excludeInboundPorts": "22"},
		} {
			s := Default()
			s.NativeSidecar, s.Permissions = native, owner{}
			pod := injectedPod(t, s, annotations)
			fillIn(pod)
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "more", Lifecycle: &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}},
			}})
			for range 2 {
				again, err := Inject(pod, meshed, s)
				if err != nil {
					t.Fatalf("%s (native: %s): %v", what, native, err)
				}
				if again.Pod == nil {
					break
				}
				pod = again.Pod // its probes are rewritten
			}
		}
	}
}

// TestResourcesAlone: a container of the author's that has nothing but resources needs nobody's word, however the API server filled it in.
func TestResourcesAlone(t *testing.T) {
	s := Default()
	s.Permissions = owner{}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {
		Name: ProxyName, Image: autoImage, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}},
		ImagePullPolicy: corev1.PullAlways, TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: accountMount, ReadOnly: true}},
	}}}}
	if _, err := Inject(pod, meshed, s); err != nil {
		t.Error(err)
	}
	pod.Spec.Containers[1].VolumeMounts[0].MountPath = "/usr/local/bin"
	if _, err := Inject(pod, meshed, s); err == nil {
		t.Error("a mount over the agent needs nobody's word")
	}
}

// TestFake: what is in a pod by the name of the injector's, and is not the injector's, is refused, and the refusal says what it is.
func TestFake(t *testing.T) {
	s := Default()
	s.Permissions = owner{}
	s.Closed = func(string, map[string]string) bool { return true }
	mount := func(at string) func(*corev1.Container) {
		return func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "noop", MountPath: at, SubPath: "sallyport-agent"})
		}
	}
	variable := func(name, value string) func(*corev1.Container) {
		return func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value}) }
	}
	yes := &corev1.ExecAction{Command: []string{"true"}}
	for want, c := range map[string]struct {
		first, proxy func(*corev1.Container)
		pod          func(*corev1.Pod)
	}{
		"istio-init is not what this injector makes: noop is mounted at /usr/local/bin/sallyport-agent":                              {first: mount("/usr/local/bin/sallyport-agent")},
		"istio-init is not what this injector makes: noop is mounted at /var/run/secrets/../../../bin":                               {first: mount("/var/run/secrets/../../../bin")},
		"istio-init is not what this injector makes: noop is mounted at /":                                                           {first: mount("/")},
		"istio-proxy is not what this injector makes: noop is mounted at /run/secrets/tokens":                                        {proxy: mount("/run/secrets/tokens")},
		"istio-proxy is not what this injector makes: noop is mounted at /var":                                                       {proxy: mount("/var")},
		"istio-proxy is not what this injector makes: its securityContext is another":                                                {proxy: func(c *corev1.Container) { c.SecurityContext.RunAsUser = ptr(int64(0)) }},
		`istio-init is not what this injector makes: its argument 18, "--block-quic", is missing`:                                    {first: func(c *corev1.Container) { c.Args = c.Args[:len(c.Args)-1] }},
		`istio-init is not what this injector makes: its argument 13 is "0.0.0.0/0", and not ""`:                                     {first: func(c *corev1.Container) { c.Args[12] = "0.0.0.0/0" }},
		`istio-init is not what this injector makes: its argument 19, "--clean", is one too many`:                                    {first: func(c *corev1.Container) { c.Args = append(c.Args, "--clean") }},
		"istio-init is not what this injector makes: its terminationMessagePath is another":                                          {first: func(c *corev1.Container) { c.TerminationMessagePath = "/usr/sbin/ip6tables-restore" }},
		"istio-init is not what this injector makes: its command is another":                                                         {first: func(c *corev1.Container) { c.Command = yes.Command }},
		"istio-init is not what this injector makes: its securityContext is another":                                                 {first: func(c *corev1.Container) { c.SecurityContext.Capabilities = nil }},
		"istio-init is not what this injector makes: its restartPolicy is another":                                                   {first: func(c *corev1.Container) { c.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways) }},
		`istio-init is not what this injector makes: its variable LD_PRELOAD is "/x.so", and is not to be there`:                     {first: variable("LD_PRELOAD", "/x.so")},
		`istio-init is not what this injector makes: its variable ISTIO_SERVICE_EXCLUDE_CIDR is "0.0.0.0/0", and is not to be there`: {first: variable("ISTIO_SERVICE_EXCLUDE_CIDR", "0.0.0.0/0")},
		"istio-init is not what this injector makes: its envFrom is another":                                                         {first: func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{}} }},
		`istio-init is not what this injector makes: its image is "busybox", and not "sallyport-proxy"`:                              {first: func(c *corev1.Container) { c.Image = "busybox" }},
		"istio-proxy is not what this injector makes: noop is mounted at /etc/resolv.conf":                                           {proxy: mount("/etc/resolv.conf")},
		"istio-proxy is not what this injector makes: noop is mounted at /var/run/secrets/tokens/x":                                  {proxy: mount("/var/run/secrets/tokens/x")},
		"istio-proxy is not what this injector makes: its mount of istio-token at /var/run/secrets/tokens is missing, or another":    {proxy: func(c *corev1.Container) { c.VolumeMounts[3].Name = "noop" }},
		"istio-proxy is not what this injector makes: its lifecycle is another": {proxy: func(c *corev1.Container) {
			c.Lifecycle.PostStart = &corev1.LifecycleHandler{Exec: yes}
		}},
		"istio-proxy is not what this injector makes: its readinessProbe is another":                                                                   {proxy: func(c *corev1.Container) { c.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{Exec: yes} }},
		"istio-proxy is not what this injector makes: its livenessProbe is another":                                                                    {proxy: func(c *corev1.Container) { c.LivenessProbe = c.ReadinessProbe }},
		`istio-proxy is not what this injector makes: its variable DISCOVERY_ADDRESS is "evil.test:15012", and not "sallyport.istio-system.svc:15012"`: {proxy: variable("DISCOVERY_ADDRESS", "evil.test:15012")},
		`istio-proxy is not what this injector makes: its variable ENVOY is "/tmp/x", and is not to be there`:                                          {proxy: variable("ENVOY", "/tmp/x")},
		"of its volumes istio-token are not what this injector makes": {pod: func(p *corev1.Pod) {
			i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == tokenVolume })
			p.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}
		}},
		"nothing in it catches its traffic": {pod: func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.InitContainers[1:] }},
	} {
		pod := injectedPod(t, s, nil)
		if c.first != nil {
			c.first(&pod.Spec.InitContainers[0])
		}
		if c.proxy != nil {
			c.proxy(findProxy(&pod.Spec))
		}
		if c.pod != nil {
			c.pod(pod)
		}
		if _, err := Inject(pod, meshed, s); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "changes: [containers]") {
			t.Errorf("want %s\ngot  %v", want, err)
		}
		settingsSay := strings.Contains(want, "argument") || strings.Contains(want, "variable") || strings.Contains(want, "image") || strings.Contains(want, "catches")
		if got := Fakes(pod, "shop", Default()); (len(got) == 0) != settingsSay || len(got) > 0 && !strings.Contains(got[0].String(), want) {
			t.Errorf("without the cluster's settings: want %s\ngot  %v", want, got)
		}
		permitted := s
		permitted.Permissions = owner{changes: []string{"containers"}}
		if _, err := Inject(pod, meshed, permitted); err != nil {
			t.Errorf("%s, permitted: %v", want, err)
		}
	}
}

// TestQUICOfOthers: who refuses QUIC though the mesh does not ask for it is no fake.
func TestQUICOfOthers(t *testing.T) {
	s := Default()
	s.Closed = func(string, map[string]string) bool { return true }
	pod := injectedPod(t, s, nil)
	s.Permissions, s.Closed = owner{}, nil
	if _, err := Inject(pod, meshed, s); err != nil {
		t.Error(err)
	}
}
