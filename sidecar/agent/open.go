package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/bounds"
	"github.com/sallyport/sallyport/sidecar/probe"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/sidecar/secrets"
	"github.com/sallyport/sallyport/sidecar/status"
	"github.com/sallyport/sallyport/sidecar/status/appprobe"
	"github.com/sallyport/sallyport/sidecar/supervise"
	"github.com/sallyport/sallyport/sidecar/tunnels"
)

// agent holds the parts. Those that hold something open are given back by closers, last first.
type agent struct {
	cfg     Config
	metrics *prometheus.Registry
	closers []func() error
	quit    context.CancelFunc
	served  bool
	leaving func() bool

	conn     *grpc.ClientConn
	identity *secrets.Workload // nil without TLS
	dns      *resolver
	refusals *refusals
	drops    *drops
	spool    *spool.Spool
	full     *fullness
	relay    *relay.Relay
	clusters *relay.OnDemand // of gateways
	socket   net.Listener
	server   *grpc.Server
	status   *status.Server
	envoy    *supervise.Supervisor

	tunnels *tunnels.Table        // what is open, and under way
	tracing atomic.Pointer[error] // why Envoy may not be traced; nil while that is not known
	prober  *probe.Prober         // of machines

	pods         Pods // of a node's agent; nil on others
	certificates *secrets.Pods
}

// open makes everything ready to run, with every address bound. On an error it has given back what it took.
func open(cfg Config) (a *agent, err error) {
	a = &agent{cfg: cfg, metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := os.MkdirAll(cfg.RunDir, 0o755); err != nil {
		return a, fmt.Errorf("run directory: %w", err)
	}
	for _, step := range []func() error{
		a.setBounds, a.openSocket, a.openConnection, a.openSpool, a.openNames, a.openPods, a.openTunnels, a.openRelay, a.openServer, a.openEnvoy, a.openStatus,
	} {
		if err := step(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// setBounds completes how much Envoy may take by what the machine lets it.
func (a *agent) setBounds() error {
	p := &a.cfg.Proxy
	files, err := bounds.Files()
	if err != nil {
		return err
	}
	if p.MemoryLimit == 0 {
		if p.MemoryLimit, err = bounds.Memory(os.DirFS("/")); err != nil {
			return err
		}
	}
	if p.Role == bootstrap.Router {
		p.Sessions = bounds.Sessions(files, p.MemoryLimit)
	}
	if most := bounds.Connections(files, p.Sessions); p.MaxConnections == 0 || p.MaxConnections > most {
		a.cfg.Log.Info("Envoy takes as many connections as it may have files open", "connections", most, "files", files, "asked_for", p.MaxConnections)
		p.MaxConnections = most
	}
	return nil
}

func (a *agent) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// openSocket comes first: it tells whether the run directory is ours.
func (a *agent) openSocket() (err error) {
	a.socket, err = listenSocket(a.cfg.Proxy.Socket)
	if err == nil {
		a.closers = append(a.closers, func() error {
			if err := a.socket.Close(); !errors.Is(err, net.ErrClosed) { // the server closes it too
				return err
			}
			return nil
		})
	}
	return err
}

func (a *agent) openConnection() (err error) {
	security := plaintext()
	if !a.cfg.Plaintext {
		if a.identity, err = secrets.New(secrets.Options{
			Folder: a.cfg.path("state", "identity"), CARootFile: a.cfg.CARoot, TokenFile: a.cfg.Token,
			Namespace: a.cfg.Proxy.Namespace, ServiceAccount: a.cfg.Proxy.ServiceAccount,
			Log: a.cfg.Log, Metrics: a.metrics,
		}); err != nil {
			return err
		}
		security = a.identity.DialOptions()
	}
	if a.conn, err = connect(a.cfg.Discovery, security); err != nil {
		return err
	}
	a.closers = append(a.closers, a.conn.Close)
	return nil
}

func (a *agent) openNames() (err error) {
	a.refusals = &refusals{log: a.cfg.Log, append: func(r record.Record) error { return a.spool.Append(r) }, now: time.Now, origin: a.cfg.origin()}
	if a.dns, err = a.cfg.resolver(a.metrics, a.refusals, a.useDefaults); err != nil {
		return err
	}
	if err := a.dns.Listen(); err != nil {
		return err
	}
	a.closers = append(a.closers, a.closeNames)
	return nil
}

// closeNames gives the DNS addresses back when Serve, which does it, never ran.
func (a *agent) closeNames() error {
	if a.served {
		return nil
	}
	over, end := context.WithCancel(context.Background())
	end()
	return a.dns.Serve(over)
}

func (a *agent) openSpool() (err error) {
	a.spool, err = spool.Open(spoolIn(a.cfg.RunDir), spool.Limits{MaxBytes: a.cfg.SpoolBytes, Logger: a.cfg.Log, Origin: a.cfg.origin()})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, a.spool.Close)
	a.cfg.Proxy.Scarce = a.cfg.path("scarce")
	places, err := newPlaces(a.cfg.Log, a.cfg.Proxy.Scarce)
	if err != nil {
		return err
	}
	a.drops = &drops{log: a.cfg.Log, admin: a.cfg.admin(), gap: a.spool.AppendGap, places: places}
	places.makeRoom = a.makeRoom
	a.cfg.Proxy.Refusing = a.cfg.path("refusing")
	a.full, err = newFullness(a.cfg.Log, a.spool, a.cfg.Proxy.Refusing)
	return err
}

// forwardProxy is the key of the node metadata that makes a router an explicit forward proxy (xds/serve).
const forwardProxy = "SALLYPORT_FORWARD_PROXY"

// origin is what all records have in common that the agent makes itself, not from Envoy's log.
func (c *Config) origin() record.Record {
	r := record.Record{
		Proxy: bootstrap.NewNode(c.Proxy).ID, Reporter: record.ReporterGateway,
		Workload: record.Workload{
			Principal: fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", cmp.Or(c.Proxy.TrustDomain, "cluster.local"), c.Proxy.Namespace, c.Proxy.ServiceAccount),
			Namespace: c.Proxy.Namespace, ServiceAccount: c.Proxy.ServiceAccount, Name: c.Proxy.Name,
		},
	}
	if c.forApps() {
		r.Reporter = record.ReporterSidecar
	} else if _, forward := c.Proxy.Metadata[forwardProxy]; forward {
		r.Reporter = record.ReporterProxy
	}
	return r
}

// podListeners are the two that a pod's traffic is redirected to; Istio's names.
var podListeners = []string{"virtualOutbound", "virtualInbound"}

func (a *agent) openRelay() error {
	self, err := protoNode(a.cfg.Proxy)
	if err != nil {
		return err
	}
	cfg := relay.Config{
		Log: a.cfg.Log, Node: self, StateDir: a.cfg.path("state", "xds"),
		Controller: discoveryv3.NewAggregatedDiscoveryServiceClient(a.conn), Taken: a.taken, Open: a.openHosts,
	}
	cfg.Watches = []relay.Watch{a.dns.watch()}
	if a.identity != nil {
		cfg.Watches = append(cfg.Watches, relay.Watch{TypeURL: secrets.Type, Secret: true, Apply: a.identity.Give})
	}
	switch {
	case a.cfg.sidecar():
		cfg.Listeners, cfg.ByName = podListeners, true
		if a.cfg.machine() {
			cfg.Watches = append(cfg.Watches, a.probeWatch())
		}
	case a.cfg.node():
		cfg.Watches = append(cfg.Watches, a.pods.Watches()...)
	default:
		a.clusters = relay.NewOnDemand(a.cfg.Log)
		cfg.Watches = append(cfg.Watches, a.clusters.Watch())
		cfg.Certificates = a.cfg.Proxy.Role == bootstrap.Router
	}
	a.relay, err = relay.New(cfg)
	a.dns.relay = a.relay
	return err
}

// newServer makes the server of Envoy's socket. Its windows stay as they are: finding out how large they should be costs a ping for
// each message of the access log.
func newServer(more ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(more,
		grpc.MaxRecvMsgSize(relay.MaxMessage), grpc.MaxSendMsgSize(relay.MaxMessage), grpc.ForceServerCodecV2(newCodec()),
		grpc.InitialWindowSize(envoysWindow), grpc.InitialConnWindowSize(envoysWindow),
	)...)
}

// configures is before Envoy's streams: it is told of no listener before it refuses what it has to.
func (a *agent) configures(service any, stream grpc.ServerStream, call *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	if call.FullMethod == discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName {
		a.full.hold(stream.Context(), func(ctx context.Context) (uint64, error) {
			return readStat(ctx, http.DefaultClient, a.cfg.admin(), refusingStat)
		})
	}
	return serve(service, stream)
}

// envoysWindow is how many bytes each of Envoy's connections, of which a worker has one, may have on their way to the agent.
const envoysWindow = 256 << 10

func (a *agent) openServer() error {
	a.server = newServer(grpc.StreamInterceptor(a.configures))
	a.relay.Register(a.server)
	if a.clusters != nil {
		a.clusters.Attach(a.relay, a.server)
	}
	if a.identity != nil {
		a.identity.RegisterSDS(a.server)
	}
	if a.fetches() {
		authv3.RegisterAuthorizationServer(a.server, &fetches{log: a.cfg.Log, use: a.relay.Use})
	}
	if a.pods != nil {
		a.pods.Register(a.server)
	}
	extprocv3.RegisterExternalProcessorServer(a.server, &requests{open: a.tunnels, read: a.toldOf()})
	accesslogv3.RegisterAccessLogServiceServer(a.server, &accessLogs{log: a.cfg.Log, spool: a.spool, records: a.reader})
	return nil
}

func (a *agent) openEnvoy() error {
	file, err := bootstrap.JSON(a.cfg.Proxy)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := provide(a.cfg.path("envoy.json"), file); err != nil {
		return fmt.Errorf("bootstrap file: %w", err)
	}
	a.envoy = supervise.New(supervise.Config{
		Log: a.cfg.Log, Path: a.cfg.Envoy, Args: a.cfg.envoyArgs(), Output: a.cfg.Output,
		Admin: a.cfg.admin(), DrainTime: a.cfg.DrainTime, MinDrain: a.cfg.MinDrain,
		Elsewhere: a.elsewhere, Linger: logFlush, EasyHeap: bootstrap.EasyHeap, OnCrash: a.noteCrash, OnCut: a.noteCut,
	})
	return nil
}

func (a *agent) openStatus() (err error) {
	if err := a.metrics.Register(newCollector(a)); err != nil {
		return err
	}
	var pods func() any
	if a.pods != nil {
		pods = a.pods.Status
	}
	a.status, err = status.Listen(status.Config{
		Log: a.cfg.Log, StatusAddr: a.cfg.StatusAddr, ReadyAddr: a.cfg.ReadyAddr, Admin: a.cfg.admin(), Metrics: a.metrics,
		Ready: a.ready,
		Relay: func(ctx context.Context, versions bool) (any, error) { return a.relay.Status(ctx, versions) },
		Pods:  pods,
		Quit:  func() { a.quit() },
		DNS:   a.dns.Handler(),

		AppProbes: appprobe.Handler(a.cfg.AppProbes, a.cfg.Proxy.IPs[0], a.cfg.Log),
	})
	return err
}

func (a *agent) ready() error {
	switch {
	case a.leaving():
		return errors.New("the proxy is ending")
	}
	if a.pods != nil {
		if lacks := a.pods.Lacks(); lacks != "" {
			return errors.New(lacks)
		}
	} else if lacks := a.relay.Lacks(); lacks != "" {
		return errors.New(lacks)
	}
	if full := a.full.says(); full != "" {
		return errors.New(full)
	}
	return nil
}
