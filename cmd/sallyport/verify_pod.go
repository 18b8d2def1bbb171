package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/check"
	"github.com/sallyport/sallyport/cmd/sallyport/forward"
	"github.com/sallyport/sallyport/cmd/sallyport/inpod"
	"github.com/sallyport/sallyport/cmd/sallyport/judge"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/sidecar/inject"
	"github.com/sallyport/sallyport/sidecar/verify"
)

// inPodWithin is how long a run in a pod may take: the container's start, the ways, and its end.
const inPodWithin = verify.Limit + time.Minute

// nobody is the user of a pod that names none.
const nobody = 65534

// podRun is a run in a pod.
type podRun struct {
	*verifyFlags
	access   *clusterAccess
	settings mesh.Config
	pod      *corev1.Pod
	user     int64
	progress io.Writer
}

// inPod tries from inside a pod of the workload.
func (f *verifyFlags) inPod(ctx context.Context, progress io.Writer) (string, []judge.Finding, error) {
	workload, err := policy.ParseWorkload(f.from)
	if err != nil {
		return "", nil, program.Misuse(fmt.Errorf("--from %w", err))
	}
	r := &podRun{verifyFlags: f, progress: progress}
	if r.access, err = f.explain.cluster.open(ctx); err != nil {
		return "", nil, err
	}
	if r.settings, err = r.access.settings(ctx, f.explain.meshConfig); err != nil {
		return "", nil, err
	}
	if r.pod, err = r.access.podOf(ctx, workload); err != nil {
		return "", nil, err
	}
	if r.user = f.user; r.user < 0 {
		r.user = appUser(r.pod)
	}
	facts, err := r.facts(ctx, workload)
	if err != nil {
		return "", nil, err
	}
	if err := r.addTargets(ctx, facts.Pod); err != nil {
		return "", nil, err
	}
	if _, err := f.targets.Env(); err != nil {
		return "", nil, program.Misuse(err)
	}
	report, err := r.try(ctx)
	if err != nil {
		return "", nil, err
	}
	report.Results = append(report.Results, untriedRanges(facts.Pod, f.targets.Addrs)...)
	return "pod " + r.pod.Namespace + "/" + r.pod.Name, judge.Judge(report, facts), nil
}

// try runs the agent in the pod.
func (r *podRun) try(ctx context.Context) (verify.Report, error) {
	image, err := r.agentImage()
	if err != nil {
		return verify.Report{}, err
	}
	fmt.Fprintf(r.progress, "trying from a container in pod %s/%s, as user %d (up to %s)\n", r.pod.Namespace, r.pod.Name, r.user, inPodWithin)
	ctx, cancel := context.WithTimeout(ctx, inPodWithin)
	defer cancel()
	out, err := inpod.Run(ctx, r.access.client, r.pod, inpod.Program{
		Name: "sallyport-verify", Image: image, Args: append([]string{"verify", "--output=json"}, r.targets.Args()...), User: r.user,
	})
	if err != nil {
		return verify.Report{}, r.access.noAccess(err)
	}
	report, err := readReport(out)
	if err != nil {
		return report, fmt.Errorf("the agent in pod %s/%s (image %s): %w", r.pod.Namespace, r.pod.Name, image, err)
	}
	return report, nil
}

func (r *podRun) agentImage() (string, error) {
	if r.image != "" {
		return r.image, nil
	}
	for _, c := range slices.Concat(r.pod.Spec.InitContainers, r.pod.Spec.Containers) {
		if c.Name == inject.ProxyName {
			return c.Image, nil
		}
	}
	return "", program.Misuse(fmt.Errorf("pod %s/%s has no proxy whose image could be used: name one that has sallyport-agent as its entry point with --image", r.pod.Namespace, r.pod.Name))
}

// podOf is a pod that runs, of the workload: the one of that name, or one that belongs to it, or has it for its service
// account. One that serves is preferred.
func (a *clusterAccess) podOf(ctx context.Context, w policy.Workload) (*corev1.Pod, error) {
	list, err := a.client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(w.Labels).String()})
	if err != nil {
		return nil, a.noAccess(err)
	}
	var best *corev1.Pod
	most, there := 0, 0
	for i := range list.Items {
		p := &list.Items[i]
		fits := 0
		switch {
		case p.Name == w.Name:
			fits = 6
		case check.OwnerOf(p).Name == w.Name:
			fits = 3
		case p.Spec.ServiceAccountName == w.Name:
			fits = 1
		}
		if fits > 0 {
			there++
		}
		if fits > 0 && forward.IsReady(p) {
			fits++
		}
		if fits > most && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			best, most = p, fits
		}
	}
	switch {
	case there == 0:
		return nil, program.Misuse(fmt.Errorf("--from %s/%s: namespace %s has no pod of this name, nor of a workload or a service account of this name", w.Namespace, w.Name, w.Namespace))
	case best == nil:
		return nil, fmt.Errorf("--from %s/%s: none of its %d pods runs", w.Namespace, w.Name, there)
	}
	return best, nil
}

// appUser is the user of the first container that is not the injector's, if it names one that is neither root nor the proxy.
func appUser(p *corev1.Pod) int64 {
	may := func(id *int64) bool { return id != nil && *id != 0 && *id != proxyUser }
	for _, c := range p.Spec.Containers {
		switch s := c.SecurityContext; {
		case c.Name == inject.ProxyName:
		case s != nil && may(s.RunAsUser):
			return *s.RunAsUser
		case p.Spec.SecurityContext != nil && may(p.Spec.SecurityContext.RunAsUser):
			return *p.Spec.SecurityContext.RunAsUser
		}
	}
	return nobody
}

// proxyUser is whose traffic a pod's rules do not catch.
const proxyUser = 1337

// facts are what the cluster says about the pod.
func (r *podRun) facts(ctx context.Context, w policy.Workload) (judge.Facts, error) {
	fmt.Fprintln(r.progress, "reading what the cluster says of it")
	w.Name, w.Labels, w.Account = r.pod.Name, r.pod.Labels, r.pod.Spec.ServiceAccountName
	changes, _, err := r.access.read(ctx)
	if err != nil {
		return judge.Facts{}, err
	}
	reg := registry.New(&r.settings)
	reg.SetControlPlane(r.access.service(), nil)
	snapshot, _ := reg.Apply(changes)
	holder, err := check.Holder(ctx, r.access.client, r.access.system, r.pod)
	if err != nil {
		return judge.Facts{}, r.access.noAccess(err)
	}
	return judge.Facts{Decide: decideBy(snapshot, w), Pod: judge.NewPod(r.pod, r.user), Holder: holder}, nil
}

// decideBy asks a snapshot, as "sallyport explain" does.
func decideBy(snapshot *registry.Snapshot, w policy.Workload) func(string) (policy.Explanation, error) {
	return func(url string) (policy.Explanation, error) {
		d, err := policy.ParseDestination(url)
		if err != nil {
			return policy.Explanation{}, err
		}
		return policy.Explain(w, d, policy.Decide(snapshot, w, d)), nil
	}
}

// addTargets adds those that are the mesh's own: the gateway's Service, ports that the pod leaves uncaught, and other pods
// by their names.
func (r *podRun) addTargets(ctx context.Context, pod *judge.Pod) error {
	if at := r.settings.DefaultGateway; len(r.targets.Gateways) == 0 && !at.IsDirect() {
		if s, err := r.access.client.CoreV1().Services(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{}); err == nil {
			r.targets.Gateways = doorsOf(s)
		}
	}
	for _, port := range pod.ExcludedPorts() {
		r.targets.TCPPorts = append(r.targets.TCPPorts, fmt.Sprint(port))
	}
	for i, name := range r.targets.Pods {
		ns, pod, named := strings.Cut(name, "/")
		if !named {
			continue
		}
		found, err := r.access.client.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return r.access.noAccess(fmt.Errorf("--pod %s: %w", name, err))
		}
		r.targets.Pods[i] = found.Status.PodIP
	}
	return nil
}

// doorsOf are the ports of a gateway's Service that sidecars connect to: all but that of its health.
func doorsOf(s *corev1.Service) []string {
	var out []string
	for _, p := range s.Spec.Ports {
		if s.Spec.ClusterIP != corev1.ClusterIPNone && p.Port != inject.ReadyPort && p.Protocol != corev1.ProtocolUDP {
			out = append(out, net.JoinHostPort(s.Spec.ClusterIP, fmt.Sprint(p.Port)))
		}
	}
	return out
}

// untriedRanges are those that the pod leaves uncaught and that no target is in.
func untriedRanges(pod *judge.Pod, targets []string) []verify.Result {
	var out []verify.Result
	for _, r := range pod.ExcludedRanges() {
		if slices.ContainsFunc(targets, func(text string) bool {
			a, err := netip.ParseAddr(text)
			return err == nil && r.Contains(a)
		}) {
			continue
		}
		out = append(out, verify.Result{
			Way: "address", Tried: "the range " + r.String() + ", which the pod's rules do not catch", Verdict: verify.Skipped,
			Seen: "no target is in it", Needs: "--target-ip ADDRESS (one of " + r.String() + ")",
		})
	}
	return out
}
