package translate_test

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestIstiosAnswers holds what a sidecar does with single connections against what Istio's does with them, for objects of the same shape. A file has
// objects.yaml, mesh.yaml (may be missing) and calls, a line each; NAME.yaml beside a list of calls NAME are objects for these calls only. The sidecar
// is that of a pod at 1.1.1.1 in default, of app foo. A line is
//
//	in|out [ADDRESS:]PORT tcp|http|http2[/tls|/mtls] [host=H] [path=P] [alpn=A] = ANSWER
//
// and an answer is the cluster that bytes go to, with " requests" behind where requests are read, and " at " where in the pod, if that is not where the
// call was made to; or the status of an answer, or "closed". Where ours is another on purpose, " not " and Istio's follow.
func TestIstiosAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/istio/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	d := newDecoder()
	calls, otherwise := 0, 0
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := istioWorld(t, a, "objects.yaml", world{objects: map[config.Key]*config.Object{}, mesh: mesh.Default()})
		for _, f := range a.Files {
			if strings.HasSuffix(f.Name, ".yaml") {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				e := istioWorld(t, a, f.Name+".yaml", base).envoys(d)
				for line := range strings.Lines(string(f.Data)) {
					if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
						continue
					}
					calls++
					if strings.Contains(line, " not ") {
						otherwise++
					}
					e.answersAs(t, line)
				}
			})
		}
	}
	t.Logf("%d calls, %d of them answered otherwise on purpose", calls, otherwise)
}

// istioWorld adds what one file of an archive says.
func istioWorld(t *testing.T, a *txtar.Archive, name string, w world) world {
	t.Helper()
	w.objects = maps.Clone(w.objects)
	for _, f := range a.Files {
		switch f.Name {
		case name:
			r := decode.File(f.Name, f.Data)
			for _, finding := range r.Findings {
				t.Fatal(finding)
			}
			for i := range r.Objects {
				w.objects[r.Objects[i].Key] = &r.Objects[i]
			}
		case "mesh.yaml":
			var err error
			if w.mesh, err = mesh.Parse(f.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.mesh.Audit.Mesh = mesh.MeshAll // an entry of the log says whether requests are read
	return w
}

// answersAs tries one line.
func (e *envoys) answersAs(t *testing.T, line string) {
	t.Helper()
	said, want, ok := strings.Cut(line, " = ")
	if !ok {
		t.Fatalf("%q: want CALL = ANSWER", line)
	}
	want, _, _ = strings.Cut(want, " not ")
	c := istioCall(t, said)
	node := translate.Node{ID: "sidecar~1.1.1.1~foo.default~default.svc.cluster.local", Namespace: "default", Account: "default", Labels: map[string]string{"app": "foo"}, IPv6: true}
	_, proxy := e.node(node, "spiffe://cluster.local/ns/default/sa/default")
	out, err := proxy.Connect(c)
	if got := istioAnswer(c, out); got != want || err != nil {
		t.Errorf("%s\n  answered: %s (%v)\n    %s", line, got, err, strings.Join(out.Steps, "\n    "))
	}
}

// istioCall reads a call.
func istioCall(t *testing.T, text string) (c interpret.Connection) {
	t.Helper()
	words := strings.Fields(text)
	more := map[string]string{"host": "", "path": "/", "alpn": ""}
	for _, w := range words[3:] {
		k, v, _ := strings.Cut(w, "=")
		more[k] = v
	}
	c.From, c.Redirected, c.Through = netip.MustParseAddrPort("1.1.1.1:40000"), true, 15001
	if words[0] == "in" {
		c.From, c.Through = netip.MustParseAddrPort("1.1.1.2:40000"), 15006
	}
	if !strings.Contains(words[1], ":") {
		words[1] = map[string]string{"in": "1.1.1.1:", "out": "1.3.3.7:"}[words[0]] + words[1]
	}
	var err error
	if c.To, err = netip.ParseAddrPort(words[1]); err != nil {
		t.Fatal(err)
	}
	protocol, tls, _ := strings.Cut(words[2], "/")
	if protocol != "tcp" {
		c.Bytes.Request = &interpret.Request{Method: "GET", Authority: more["host"], Path: more["path"], Headers: map[string]string{"user-agent": "app"}}
	}
	if tls == "" {
		return c
	}
	inside := c.Bytes
	h := &interpret.Hello{SNI: more["host"], Inside: &inside}
	alpn := map[string]string{"http": "http/1.1", "http2": "h2", "tcp": ""}[protocol]
	if tls == "mtls" {
		h.SNI, h.Peer = "", []string{"spiffe://cluster.local/ns/default/sa/default"}
		alpn = strings.TrimSuffix("istio-"+alpn, "-")
	}
	if more["alpn"] == "-" {
		alpn = ""
	} else if more["alpn"] != "" {
		alpn = more["alpn"]
	}
	if alpn != "" {
		h.ALPN = []string{alpn}
	}
	c.Bytes = interpret.Bytes{Hello: h}
	return c
}

// istioAnswer says what became of a call.
func istioAnswer(c interpret.Connection, out interpret.Outcome) string {
	switch {
	case out.Response != nil:
		return fmt.Sprint(out.Response.Status)
	case out.Upstream == nil, out.Upstream.Cluster == wire.BlackHoleCluster:
		return "closed"
	}
	answer := out.Upstream.Cluster
	if len(out.Entries) == 1 && (out.Entries[0].Log == string(wire.InboundHTTP) || out.Entries[0].Log == string(wire.SidecarHTTP)) {
		answer += " requests"
	}
	if at := strings.Join(out.Upstream.Addresses, ","); c.Through == 15006 && at != c.To.String() {
		answer += " at " + at
	}
	return answer
}
