package judge

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/sidecar/verify"
)

func decides(verdict, path, kind string) func(string) (policy.Explanation, error) {
	return func(string) (policy.Explanation, error) {
		return policy.Explanation{Verdict: verdict, Path: path, DecidedBy: policy.DecidedBy{Kind: kind, Namespace: "shop", Name: "x", Rule: "the rule"}}, nil
	}
}

var (
	registryOnly = decides("deny", "blackhole", "MeshConfig")
	allowAny     = decides("allow", "passthrough", "MeshConfig")
	guard        = config.Key{Kind: "DaemonSet", Namespace: "istio-system", Name: "sallyport-node"}
)

// pod is one as the injector leaves it, with these further arguments of its init step.
func pod(user int64, annotations map[string]string, args ...string) *Pod {
	return NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Annotations: annotations},
		Spec: corev1.PodSpec{InitContainers: []corev1.Container{
			{Name: "istio-init", Args: append([]string{"init", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-b", "*"}, args...)},
			{Name: "istio-proxy"},
		}},
	}, user)
}

func TestJudge(t *testing.T) {
	const url = "tcp://203.0.113.5:9443"
	seen := func(v verify.Verdict, taken verify.Taken) verify.Result {
		return verify.Result{Way: "port", Tried: "x", Verdict: v, Seen: "seen", Taken: taken, URL: url}
	}
	of := func(way string, r verify.Result) verify.Result { r.Way, r.URL = way, ""; return r }
	bare := NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bare"}}, 65534)
	host := NewPod(&corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true}}, 65534)
	ports := map[string]string{"traffic.sidecar.istio.io/excludeOutboundPorts": "9443"}
	ranges := map[string]string{"traffic.sidecar.istio.io/excludeOutboundIPRanges": "203.0.113.0/24"}
	for name, c := range map[string]struct {
		result    verify.Result
		facts     Facts
		want      verify.Verdict
		why, fix  string
		noDecider bool
	}{
		"nothing known, closed":                   {seen(verify.Closed, verify.ByProxy), Facts{}, verify.Closed, "seen", "", true},
		"closed by an object":                     {seen(verify.Closed, verify.ByProxy), Facts{Decide: registryOnly}, verify.Closed, "closed by MeshConfig shop/x (the rule)", "", false},
		"silent, and refused by an object":        {seen(verify.Unclear, verify.ByProxy), Facts{Decide: registryOnly}, verify.Closed, "closed by MeshConfig", "", false},
		"silent, and let pass":                    {seen(verify.Closed, verify.ByProxy), Facts{Decide: allowAny}, verify.Unclear, "lets it pass", "a target that answers", false},
		"silent, let pass, and held behind":       {seen(verify.Unclear, verify.ByProxy), Facts{Decide: allowAny, Holder: guard}, verify.Closed, "held by DaemonSet istio-system/sallyport-node", "", true},
		"uncaught and held":                       {seen(verify.Unclear, ""), Facts{Decide: registryOnly, Holder: guard}, verify.Closed, "held by DaemonSet", "", true},
		"uncaught, refused, nobody knows by whom": {seen(verify.Closed, ""), Facts{Decide: registryOnly, Pod: pod(1, nil)}, verify.Closed, "seen", "", true},
		"uncaught by an annotation, refused":      {seen(verify.Closed, ""), Facts{Pod: pod(1, ports, "-o", "9443")}, verify.Unclear, `excludeOutboundPorts="9443"`, "remove the annotation", true},
		"uncaught and silent":                     {seen(verify.Unclear, ""), Facts{}, verify.Unclear, "seen", "try again", true},
		"by the resolver, for an object":          {seen(verify.Closed, verify.ByResolver), Facts{Decide: registryOnly}, verify.Closed, "closed by MeshConfig", "", false},
		"by the resolver, under ALLOW_ANY":        {seen(verify.Closed, verify.ByResolver), Facts{Decide: allowAny}, verify.Closed, "seen", "", true},
		"QUIC by the pod's rules":                 {of("quic", seen(verify.Closed, verify.ByRules)), Facts{Holder: guard}, verify.Closed, "SALLYPORT_QUIC", "", true},
		"skipped":                                 {verify.Result{Verdict: verify.Skipped, Seen: "no target", Needs: "--port"}, Facts{Decide: allowAny, Holder: guard}, verify.Skipped, "no target", "give --port", true},
		"cannot be asked":                         {seen(verify.Closed, verify.ByProxy), Facts{Decide: func(string) (policy.Explanation, error) { return policy.Explanation{}, errors.New("away") }}, verify.Closed, "seen", "", true},

		"let pass by the mesh":         {seen(verify.Open, verify.ByProxy), Facts{Decide: allowAny}, verify.Open, "seen", "outboundTrafficPolicy.mode: REGISTRY_ONLY", false},
		"let pass by a Sidecar":        {seen(verify.Open, verify.ByProxy), Facts{Decide: decides("allow", "passthrough", "Sidecar")}, verify.Open, "seen", "in Sidecar shop/x", false},
		"let pass by an entry":         {seen(verify.Open, verify.ByProxy), Facts{Decide: decides("allow", "gateway", "ServiceEntry")}, verify.Open, "seen", "ServiceEntry shop/x lets it pass", false},
		"let pass against the objects": {seen(verify.Open, verify.ByProxy), Facts{Decide: registryOnly}, verify.Open, "seen", "sallyport proxies", false},
		"let pass by up":               {seen(verify.Open, verify.ByProxy), Facts{Up: true}, verify.Open, "seen", "from the directory of up", true},
		"open by an annotation":        {seen(verify.Open, ""), Facts{Pod: pod(1, ports, "-o", "9443")}, verify.Open, "seen", `remove the annotation traffic.sidecar.istio.io/excludeOutboundPorts: "9443"`, true},
		"open by a range":              {seen(verify.Open, ""), Facts{Pod: pod(1, ranges, "-x", "203.0.113.0/24")}, verify.Open, "seen", `excludeOutboundIPRanges: "203.0.113.0/24"`, true},
		"open by the injector":         {seen(verify.Open, ""), Facts{Pod: pod(1, nil, "-o", "9000:9999")}, verify.Open, "seen", "injector.settings.redirect.excludeOutboundPorts", true},
		"open by what is included":     {seen(verify.Open, ""), Facts{Pod: pod(1, nil, "-i", "10.0.0.0/8")}, verify.Open, "seen", "injector.settings.redirect.includeOutboundIPRanges", true},
		"open as the proxy's user":     {seen(verify.Open, ""), Facts{Pod: pod(1337, nil)}, verify.Open, "seen", "user or group 1337", true},
		"open without a proxy":         {seen(verify.Open, ""), Facts{Pod: bare}, verify.Open, "seen", "kubectl label namespace shop", true},
		"open on the node's network":   {seen(verify.Open, ""), Facts{Pod: host}, verify.Open, "seen", "spec.hostNetwork", true},
		"open, nobody knows why":       {seen(verify.Open, ""), Facts{}, verify.Open, "seen", "have it caught", true},
		"DNS tunnel":                   {of("dns-tunnel", seen(verify.Open, "")), Facts{}, verify.Open, "seen", "unregistered: refuse", true},
		"QUIC":                         {of("quic", seen(verify.Open, "")), Facts{Pod: pod(1, nil)}, verify.Open, "seen", "blockQUIC: true", true},
		"ICMP":                         {of("icmp", seen(verify.Open, "")), Facts{Pod: pod(1, nil)}, verify.Open, "seen", "networkPolicies.namespaces={shop}", true},
		"ICMP, past what holds":        {of("icmp", seen(verify.Open, "")), Facts{Pod: pod(1, nil), Holder: guard}, verify.Open, "seen", "see why DaemonSet", true},
		"DNS, not captured":            {of("dns-udp", seen(verify.Open, "")), Facts{Pod: pod(1, nil, "--redirect-dns=false")}, verify.Open, "seen", "ISTIO_META_DNS_CAPTURE", true},
		"DNS, nobody knows why":        {of("dns-tcp", seen(verify.Open, "")), Facts{}, verify.Open, "seen", "take 53 out", true},
		"another pod":                  {of("pod", seen(verify.Open, "")), Facts{}, verify.Open, "seen", "NetworkPolicy", true},
	} {
		got := Judge(verify.Report{Results: []verify.Result{c.result}}, c.facts)[0]
		if got.Verdict != c.want || !strings.Contains(got.Why, c.why) || !strings.Contains(got.Fix, c.fix) || (c.fix == "") != (got.Fix == "") || (got.DecidedBy == nil) != c.noDecider {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestExcluded(t *testing.T) {
	p := pod(1, nil, "-o", "25,9000:9010", "-x", "10.0.0.0/8,2001:db8::/32")
	if got := p.ExcludedPorts(); len(got) != 2 || got[0] != 25 || got[1] != 9000 {
		t.Errorf("ports %v", got)
	}
	if got := p.ExcludedRanges(); len(got) != 2 || got[1].String() != "2001:db8::/32" {
		t.Errorf("ranges %v", got)
	}
}

var someOfEach = []Finding{
	{Result: verify.Result{Way: "name", Tried: "a", Verdict: verify.Closed}, Why: "closed by it"},
	{Result: verify.Result{Way: "icmp", Tried: "b", Verdict: verify.Open}, Why: "it answered", Fix: "do <this>"},
	{Result: verify.Result{Way: "doh", Tried: "c", Verdict: verify.Skipped}, Why: "no target", Fix: "give --doh"},
	{Result: verify.Result{Way: "udp", Tried: "d", Verdict: verify.Unclear}, Why: "silence"},
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	Table(&b, "pod shop/web", someOfEach)
	for _, want := range []string{"✓ name        closed   a: closed by it\n", "✗ icmp        OPEN     b: it answered\n    → do <this>\n", "- doh ", "? udp ", "1 open, 1 closed, 1 skipped, 1 not to be told\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := JUnit(&b, "pod shop/web", someOfEach); err != nil {
		t.Fatal(err)
	}
	var read suite
	if err := xml.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	if read.Tests != 4 || read.Failures != 1 || read.Errors != 1 || read.Skipped != 1 || len(read.Cases) != 4 {
		t.Errorf("%+v", read)
	}
	if f := read.Cases[1].Failure; f == nil || f.Message != "it answered" || f.Text != "do <this>" || read.Cases[0].Failure != nil || read.Cases[2].Skipped == nil || read.Cases[3].Error == nil {
		t.Errorf("%s", b.String())
	}
}
