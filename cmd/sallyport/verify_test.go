package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/e2e/world"
)

// The results of agents, as they print them among other things.
const (
	resultsClosed  = `{"results":[{"way":"name","tried":"TLS to other.com","verdict":"closed","seen":"ended","taken":"proxy","url":"https://other.com"}]}`
	resultsOpen    = "some warning\n" + `{"results":[{"way":"name","tried":"TLS to external.com","verdict":"open","seen":"answered","taken":"proxy","url":"https://external.com"}]}` + "\nmore\n"
	resultsSkipped = `{"results":[{"way":"icmp","tried":"ping","verdict":"skipped","seen":"no target","needs":"--target-ip"},{"way":"ipv6","tried":"x","verdict":"closed","seen":"none"}]}`
	resultsNone    = `{"results":[{"way":"icmp","tried":"ping","verdict":"skipped","seen":"no target","needs":"--target-ip"}]}`
	resultsUnclear = `{"results":[{"way":"udp","tried":"x","verdict":"error","seen":"silence"}]}`
)

func TestVerifyResults(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"closed": resultsClosed, "open": resultsOpen, "skipped": resultsSkipped, "none": resultsNone, "unclear": resultsUnclear, "empty": "no report",
		"mesh.yaml": explained, "only.yaml": "outboundTrafficPolicy: {mode: REGISTRY_ONLY}",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("mesh", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("mesh.yaml", "mesh/e.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string // in stdout, or in the error
	}{
		{"--results closed", exitDone, "0 open, 1 closed, 0 skipped"},
		{"--results closed --config-dir mesh --mesh-config only.yaml --from default/app", exitDone, "closed by MeshConfig"},
		{"--results closed --config-dir mesh --from default/app", exitFailed, "lets it pass"},
		{"--results open", exitNo, "OPEN"},
		{"--results open --config-dir mesh --from default/app", exitNo, "→ ServiceEntry default/external lets it pass"},
		{"--results open -o json", exitNo, `"verdict": "open"`},
		{"--results open -o junit", exitNo, `failures="1"`},
		{"--results skipped", exitDone, "0 open, 1 closed, 1 skipped"},
		{"--results skipped --strict", exitFailed, "1 ways were not tried"},
		{"--results none", exitFailed, "nothing was tried"},
		{"--results unclear", exitFailed, "could not be told"},
		{"--results empty", exitUsage, "no report"},
		{"--results nowhere", exitUsage, "nowhere"},
		{"--results closed --config-dir mesh", exitUsage, "--from is missing"},
		{"--results closed -o yaml", exitUsage, "table, json or junit"},
		{"--results closed --local", exitUsage, "give one of them"},
		{"", exitUsage, "where are the ways tried?"},
		{"--local --only telepathy", exitUsage, "is no way"},
		{"--local --target https://other.com", exitUsage, "--target"},
		{"--up --proxy socks5://x:1", exitUsage, "--proxy"},
		{"--kubeconfig nowhere --target other.com", exitUsage, "--from is missing"},
		{"extra", exitUsage, "extra"},
	} {
		out, errs, code, err := call(t, append([]string{"verify"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(out+errs+fmt.Sprint(err), tt.want) {
			t.Errorf("%q: exit %d (%v), want %d and %q in:\n%s%s", tt.args, code, err, tt.code, tt.want, out, errs)
		}
	}
	out, _, _, _ := call(t, "verify", "--results", "open", "-o", "junit")
	if err := xml.Unmarshal([]byte(out), &struct{}{}); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestVerifyUpIsAway: nothing can be said of a proxy that does not answer.
func TestVerifyUpIsAway(t *testing.T) {
	// A socket that keeps a port and does not listen: who connects is refused, and nobody else gets the port.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	out, progress, code, err := call(t, "verify", "--up", "--proxy", addr, "--data", t.TempDir(), "--only", "name", "--target", "other.com")
	if code != exitFailed || !strings.Contains(out, "the proxy "+addr+" does not answer") || !strings.Contains(progress, "tried name") {
		t.Errorf("exit %d (%v): %s%s", code, err, out, progress)
	}
}

// verify: what is started in a pod is what was asked for. That it prints something takes a kubelet.
func (a *clusterLab) verify(t *testing.T) {
	pods := a.client.CoreV1().Pods("shop")
	gateway, err := a.client.CoreV1().Services("istio-system").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-egressgateway"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "status-port", Port: 15021}, {Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	a.made(gateway, err)
	t.Cleanup(func() {
		a.made(nil, a.client.CoreV1().Services("istio-system").Delete(context.WithoutCancel(t.Context()), gateway.Name, metav1.DeleteOptions{}))
	})
	made, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "excepted", Labels: map[string]string{"app": "excepted"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "istio-init", Image: "agent:v1", Args: []string{"init", "-o", "9443", "-x", "198.51.100.0/24"}}},
			Containers:     []corev1.Container{{Name: "web", Image: "web"}, {Name: "istio-proxy", Image: "agent:v1"}},
		},
	}, metav1.CreateOptions{})
	a.made(made, err)
	call := func(on *clusterLab, args ...string) (string, int) {
		out, errs, code := on.run(verifyCommand(), append([]string{"--target", "other.com", "--pod", "shop/excepted"}, args...)...)
		return out + errs, code
	}
	if said, code := call(a, "--from", "shop/excepted"); code != exitFailed || !strings.Contains(said, "none of its 1 pods runs") {
		t.Errorf("a pod that does not run: exit %d, %s", code, said)
	}
	if said, code := call(a, "--from", "shop/nobody"); code != exitUsage || !strings.Contains(said, "--from shop/nobody") {
		t.Errorf("no such pod: exit %d, %s", code, said)
	}
	made.Status.Phase, made.Status.PodIP, made.Status.PodIPs = corev1.PodRunning, "10.0.0.9", []corev1.PodIP{{IP: "10.0.0.9"}}
	a.made(pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))

	ended := make(chan error, 1)
	go func() { ended <- a.endContainer("excepted") }()
	said, code := call(a, "--from", "shop/excepted", "--user", "1234")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || !strings.Contains(said, "no report of sallyport-agent") {
		t.Errorf("without a kubelet: exit %d, %s", code, said)
	}
	got, err := pods.Get(t.Context(), "excepted", metav1.GetOptions{})
	a.made(got, err)
	c := got.Spec.EphemeralContainers[0]
	args := strings.Join(c.Args, " ")
	if c.Image != "agent:v1" || *c.SecurityContext.RunAsUser != 1234 || !strings.HasPrefix(args, "verify --output=json --target=other.com --port=9443 --gateway="+gateway.Spec.ClusterIP+":443 --pod=10.0.0.9") {
		t.Errorf("%+v", c)
	}

	if said, code := call(a.as("outsider"), "--from", "shop/excepted"); code != exitFailed || !strings.Contains(said, "no access") {
		t.Errorf("who may do nothing: exit %d, %s", code, said)
	}
}

// endContainer plays the kubelet for the first ephemeral container of a pod.
func (a *clusterLab) endContainer(pod string) error {
	pods := a.client.CoreV1().Pods("shop")
	return world.Within(a.Context(), time.Minute, func() error {
		p, err := pods.Get(a.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Spec.EphemeralContainers) == 0 {
			return fmt.Errorf("pod %s has no ephemeral container", pod)
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"ephemeralContainerStatuses": []corev1.ContainerStatus{{
			Name: p.Spec.EphemeralContainers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
		}}}})
		if err != nil {
			return err
		}
		_, err = pods.Patch(a.Context(), pod, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status")
		return err
	})
}
