package controlplane

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/admission/review"
	"github.com/sallyport/sallyport/config/admission/webhook"
	"github.com/sallyport/sallyport/config/pacedlog"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/sidecar/inject"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/netcap"
)

// serveWebhooks answers the API server's questions about pods and objects.
func (c *cluster) serveWebhooks(ctx context.Context, p *plane, l net.Listener) error {
	tlsConfig, err := servertls.New(servertls.Options{CA: c.authority, Hosts: servertls.Hosts(servertls.ServiceHosts(c.Service, c.Namespace)...), Webhook: true})
	if err != nil {
		return err
	}
	var pods http.Handler
	log, enter := pacedlog.New(p.log, reviewLine), letIn(netcap.NewShares(reviewRoom))
	if c.InjectionConfigFile != "" {
		// a client of its own: whoever reaches the port can make it ask, and must not hold up the others
		client, err := kubernetes.NewForConfig(c.REST)
		if err != nil {
			return err
		}
		pods = inject.Handler(inject.HandlerConfig{
			Log: log, Metrics: p.metrics, Namespaces: namespaces{client, p.known}, Enter: enter,
			Settings: func() inject.Settings { return c.injectionSettings(p.snapshot.Load()) },
		})
		go c.learnNative(ctx, p.log)
		written, err := watchFile(ctx, c.InjectionConfigFile, p.log)
		if err != nil {
			return fmt.Errorf("--injection-config %q: changes of it would not be seen: %w", c.InjectionConfigFile, err)
		}
		go c.followInjection(ctx, p, written)
	}
	handler := c.reviews(p.objectReviews(log, enter), pods)
	return serveToTheEnd(ctx, webhookServer(handler, p.log), tls.NewListener(l, tlsConfig))
}

// reviews are the paths of the port; pods is nil where nothing is injected.
func (c *cluster) reviews(objects, pods http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /validate", objects)
	mux.HandleFunc("POST /validate/{key}", func(w http.ResponseWriter, r *http.Request) {
		objects.ServeHTTP(w, r.WithContext(c.knowing(r)))
	})
	if pods != nil {
		mux.Handle("POST /inject", pods)
	}
	return mux
}

// objectReviews answers about objects. What others' objects have to do with it is said to the API server alone.
func (p *plane) objectReviews(log *slog.Logger, enter review.Enter) http.Handler {
	return webhook.Handler(webhook.Config{Log: log, Metrics: p.metrics, Enter: enter,
		Check: func(ctx context.Context, o config.Object) []admission.Finding {
			if !ofAPIServer(ctx) {
				return nil
			}
			return p.known.check(o, *p.snapshot.Load().Mesh)
		},
		Foresee: p.foresee,
	})
}

// Reviews that are read and judged at a time may have reviewRoom bytes, of which each takes reviewHead beside its body. What is made of a byte takes some.
const (
	reviewRoom = 64 << 20
	reviewHead = 32 << 10
	reviewLine = 500 // bytes of a text in the log
)

// letIn gives calls their part of the room, by where they come from. The API server is one of many when it asks about pods, and is known when it asks about objects.
func letIn(room *netcap.Shares) review.Enter {
	return func(r *http.Request, bytes int, end func()) (leave func(), ok bool) {
		var from netip.Prefix
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && !ofAPIServer(r.Context()) {
			from = netcap.PeerOf(at.Addr())
		}
		return room.Take(from, reviewHead+bytes, end)
	}
}

// webhookServer answers API servers, which keep their connections. Whoever else reaches the port has to say what he has to say in a time, and has little kept of it that nobody reads.
func webhookServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: patience, ReadTimeout: 2 * patience, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 16 << 10,
		HTTP2:    &http.HTTP2Config{MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
}

// asksByKey is of the API server's own questions, which come by the path that only it and the control plane know.
type asksByKey struct{}

// validatingPath is where the API server asks about objects. Whoever else reaches the port knows no such path, and learns nothing of the log.
func (c *cluster) validatingPath() (string, error) {
	key, err := c.authority.Derive("the path of the validating webhook")
	if err != nil {
		return "", err
	}
	return "/validate/" + hex.EncodeToString(key), nil
}

// knowing is the context of a question, which says whether it is the API server's.
func (c *cluster) knowing(r *http.Request) context.Context {
	path, err := c.validatingPath()
	if err != nil || subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(path)) != 1 {
		return r.Context()
	}
	return context.WithValue(r.Context(), asksByKey{}, true)
}

// ofAPIServer says whether a question is the API server's own.
func ofAPIServer(ctx context.Context) bool { return ctx.Value(asksByKey{}) != nil }

// foresee warns the API server of what an object would newly deny.
func (p *plane) foresee(ctx context.Context, o config.Object) []admission.Finding {
	if p.foresight == nil || !ofAPIServer(ctx) {
		return nil
	}
	return p.foresight.of(ctx, o)
}

// grace is how long calls under way may take when the context has ended.
const grace = 5 * time.Second

// serveToTheEnd serves until ctx ends and calls under way have their answer: each is a pod that somebody waits for.
func serveToTheEnd(ctx context.Context, srv *http.Server, l net.Listener) error {
	answered := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(answered)
		within, end := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer end()
		if srv.Shutdown(within) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-answered // Serve does not wait for them
		return nil
	}
	return err
}

// namespaces knows labels from the inventory, and asks the API server for a namespace that was made just now.
type namespaces struct {
	client kubernetes.Interface
	known  *inventory
}

// NamespaceLabels implements inject.Namespaces.
func (n namespaces) NamespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	if o := n.known.get(config.Key{Kind: config.KindNamespace, Name: name}); o != nil {
		return o.Labels, nil
	}
	ns, err := n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

// injectionSettings are those of the file, with what is known of the cluster and what the mesh's settings say.
func (c *cluster) injectionSettings(snap *registry.Snapshot) inject.Settings {
	s := *c.injection.Load()
	s.NoNative, s.NoMutualTLS, s.Permissions = c.noNative.Load(), !snap.Mesh.MutualTLS, snap.Mesh.Injection
	s.Closed = func(ns string, labels map[string]string) bool { return !snap.AllowAny(snap.Scope(ns, labels)) }
	return s
}

// versionEvery is how often the API server's version is looked at, which an upgrade changes.
const versionEvery = 5 * time.Minute

// learnNative asks the API server for its version, which says whether native sidecars run. Until it is known they are
// taken to: the chart installs on no cluster that lacks them.
func (c *cluster) learnNative(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(versionEvery)
	defer tick.Stop()
	for {
		if info, err := c.client.Discovery().ServerVersion(); err != nil {
			log.Warn("the API server's version is not known; the form of sidecars stays as it is", "error", err)
		} else if has, err := inject.HasNative(info.GitVersion); err != nil {
			log.Warn("the API server's version cannot be read; the form of sidecars stays as it is", "version", info.GitVersion, "error", err)
		} else {
			c.noNative.Store(!has)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// loadInjection reads the injector's settings.
func (c *cluster) loadInjection() error {
	data, err := os.ReadFile(c.InjectionConfigFile)
	if err != nil {
		return fmt.Errorf("--injection-config: %w", err)
	}
	settings, err := inject.ParseSettings(data)
	if err != nil {
		return fmt.Errorf("--injection-config %q: %w", c.InjectionConfigFile, err)
	}
	c.injection.Store(&settings)
	return nil
}

// followInjection takes new settings of the injector over; a file that is wrong leaves the old ones.
func (c *cluster) followInjection(ctx context.Context, p *plane, written <-chan struct{}) {
	for {
		if err := c.loadInjection(); err != nil {
			p.log.Error("the injector's settings stay as they were", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-written:
		}
	}
}
