package kube

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// cluster writes objects as a user would.
type cluster struct {
	t      *testing.T
	access *rest.Config
	client dynamic.Interface
}

func newCluster(t *testing.T, access *rest.Config) *cluster {
	c := rest.CopyConfig(access)
	c.QPS = -1
	return &cluster{t: t, access: access, client: dynamic.NewForConfigOrDie(c)}
}

// in gives the client of an object's kind, and its namespace.
func (c *cluster) in(kind, apiVersion, ns string) dynamic.ResourceInterface {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		c.t.Fatal(err)
	}
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "ry") || strings.HasSuffix(kind, "cy") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	r := c.client.Resource(gv.WithResource(plural))
	if ns == "" {
		return r
	}
	return r.Namespace(ns)
}

// apply writes each of the YAML documents, by server-side apply.
func (c *cluster) apply(text string) {
	c.t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		o := c.parse(doc)
		c.write(c.in(o.GetKind(), o.GetAPIVersion(), o.GetNamespace()), o)
	}
}

// applyTo writes one document in that version, which a CRD may serve only in a moment.
func (c *cluster) applyTo(r dynamic.ResourceInterface, text, apiVersion string) {
	c.t.Helper()
	o := c.parse(text)
	o.SetAPIVersion(apiVersion)
	eventually(c.t, apiVersion+" can be written", func() bool {
		_, err := r.Apply(context.Background(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err == nil
	})
}

func (c *cluster) parse(text string) *unstructured.Unstructured {
	c.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		c.t.Fatal(err)
	}
	return o
}

func (c *cluster) write(r dynamic.ResourceInterface, o *unstructured.Unstructured) {
	c.t.Helper()
	if _, err := r.Apply(context.Background(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		c.t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

func (c *cluster) get(kind, apiVersion, ns, name string) *unstructured.Unstructured {
	c.t.Helper()
	o, err := c.in(kind, apiVersion, ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

func (c *cluster) delete(kind, apiVersion, ns, name string) {
	c.t.Helper()
	if err := c.in(kind, apiVersion, ns).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// entry is a ServiceEntry's YAML.
func entry(ns, name, host string) string {
	return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name + ", namespace: " + ns + "}\nspec:\n" +
		"  hosts: ['" + host + "']\n  location: MESH_EXTERNAL\n  resolution: DNS\n  ports: [{number: 443, name: tls, protocol: TLS}]\n"
}

// badEntry is a ServiceEntry that the API server takes and admission refuses.
func badEntry(ns, name, host string) string {
	return entry(ns, name, host) + "  exportTo: ['.', '*']\n"
}

func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// road is a way to the API server that can be closed.
type road struct {
	to       string
	listener net.Listener
	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]bool
	done     sync.WaitGroup
}

// through gives a configuration whose connections go by way of a road.
func through(t *testing.T, access *rest.Config) (*rest.Config, *road) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &road{to: strings.TrimPrefix(access.Host, "https://"), listener: l, open: map[net.Conn]bool{}}
	r.done.Go(r.serve)
	t.Cleanup(func() {
		_ = l.Close()
		r.close(true)
		r.done.Wait()
	})
	c := rest.CopyConfig(access)
	c.Host = "https://" + l.Addr().String()
	return c, r
}

func (r *road) serve() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		closed := r.closed
		r.mu.Unlock()
		if closed {
			_ = in.(*net.TCPConn).SetLinger(0)
			_ = in.Close()
			continue
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		if closed = r.closed; closed { // meanwhile: nobody else would end it
			_, _ = in.Close(), out.Close()
		} else {
			r.open[in], r.open[out] = true, true
		}
		r.mu.Unlock()
		if closed {
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			r.done.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// close ends all connections and lets no more through, or opens the road.
func (r *road) close(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
	for c := range r.open {
		_ = c.Close()
	}
	clear(r.open)
}
