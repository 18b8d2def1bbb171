package relay

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/sidecar/relay/state"
)

// bench drives a machine and reads what it wants to send.
type bench struct {
	*machine
	t *testing.T
}

func newBench(t *testing.T, dir string, watches ...Watch) *bench {
	t.Helper()
	store, err := state.Open(dir, "node", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &bench{newMachine(slog.New(slog.DiscardHandler), store, &corev3.Node{Id: "node"}, watches), t}
}

func res(name, version string) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: version, Resource: &anypb.Any{Value: []byte(name + version)}}
}

func (b *bench) subscribe(url string, names ...string) {
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: url, ResourceNamesSubscribe: names})
}

func (b *bench) controllerSays(url, nonce string, removed []string, resources ...*discoveryv3.Resource) {
	b.controllerResponse(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: url, Nonce: nonce, Resources: resources, RemovedResources: removed})
}

// sent takes the responses to Envoy in short form: "+a@1 -b".
func (b *bench) sent() []string {
	var out []string
	for _, response := range b.toEnvoy {
		out = append(out, short(response))
	}
	b.toEnvoy = nil
	return out
}

func short(response *discoveryv3.DeltaDiscoveryResponse) string {
	var words []string
	for _, r := range response.GetResources() {
		words = append(words, "+"+r.GetName()+"@"+r.GetVersion())
	}
	for _, name := range response.GetRemovedResources() {
		words = append(words, "-"+name)
	}
	return strings.Join(words, " ")
}

// ack answers every response in flight of the type.
func (b *bench) ack(url string) {
	for _, j := range slices.Clone(b.kind(url).inflight) {
		b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: url, ResponseNonce: j.nonce})
	}
}

// told takes the requests to the controller in short form.
func (b *bench) told() []string {
	var out []string
	for _, req := range b.toController {
		words := []string{req.GetTypeUrl()[strings.LastIndex(req.GetTypeUrl(), ".")+1:]}
		if req.GetNode() != nil {
			words = append(words, "node")
		}
		if req.GetResponseNonce() != "" {
			words = append(words, map[bool]string{true: "nack", false: "ack"}[req.GetErrorDetail() != nil], req.GetResponseNonce())
		}
		for _, name := range req.GetResourceNamesSubscribe() {
			words = append(words, "+"+name)
		}
		for _, name := range req.GetResourceNamesUnsubscribe() {
			words = append(words, "-"+name)
		}
		for _, name := range slices.Sorted(maps.Keys(req.GetInitialResourceVersions())) {
			words = append(words, name+"@"+req.GetInitialResourceVersions()[name])
		}
		out = append(out, strings.Join(words, " "))
	}
	b.toController = nil
	return out
}

func (b *bench) kept(url string) string {
	var words []string
	for name, version := range b.kind(url).table.Versions() {
		words = append(words, name+"@"+version)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (b *bench) want(what string, got, want any) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s:\n%s", what, diff)
	}
}

func TestFollowsTheController(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(ClusterType)
	b.controllerOpen()
	b.want("first request", b.told(), []string{"Cluster node"})
	b.controllerSays(ClusterType, "n1", nil, res("a", "1"), res("b", "1"))
	b.want("to Envoy", b.sent(), []string{"+a@1 +b@1"})
	b.want("no ACK before Envoy's", b.told(), []string(nil))
	b.want("nothing kept before Envoy's word", b.kept(ClusterType), "")
	b.ack(ClusterType)
	b.want("ACK", b.told(), []string{"Cluster ack n1"})
	b.want("kept", b.kept(ClusterType), "a@1 b@1")

	b.controllerSays(ClusterType, "n2", []string{"b", "unknown"}, res("a", "1"), res("c", "1"))
	b.want("only what differs", b.sent(), []string{"+c@1 -b"})
	b.ack(ClusterType)
	b.want("kept", b.kept(ClusterType), "a@1 c@1")
	b.told()

	b.controllerSays(ClusterType, "n3", nil, res("a", "1"))
	b.want("equal versions are not sent", b.sent(), []string(nil))
	b.want("but acknowledged", b.told(), []string{"Cluster ack n3"})

	b.subscribe(EndpointType, "x", "y")
	b.want("forwarded", b.told(), []string{"ClusterLoadAssignment +x +y"})
	b.controllerSays(EndpointType, "n4", []string{"y"}, res("x", "1"))
	b.want("absence is passed on", b.sent(), []string{"+x@1 -y"})
	b.ack(EndpointType)
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResourceNamesUnsubscribe: []string{"x"}, ResourceNamesSubscribe: []string{"z"}})
	b.want("changes", b.told(), []string{"ClusterLoadAssignment ack n4", "ClusterLoadAssignment +z -x"})
	b.want("a first purge waits", b.purge(), true)
	b.want("kept", b.kept(EndpointType), "x@1")
	b.purge()
	b.want("a second one does not", b.kept(EndpointType), "")
	b.controllerSays(EndpointType, "n5", nil, res("x", "2"))
	b.want("unsubscribed", b.sent(), []string(nil))
}

func TestEmptyFirstResponseReachesEnvoy(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(ListenerType)
	b.controllerOpen()
	b.controllerSays(ListenerType, "n1", nil)
	b.want("to Envoy", b.sent(), []string{""})
	b.ack(ListenerType)
	b.want("known though empty", b.kind(ListenerType).table.Known(), true)
}

func TestAliasMatchesSubscription(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(VirtualHost, "443/www.example.com")
	b.controllerOpen()
	host := res("443/example", "1")
	host.Aliases = []string{"443/www.example.com"}
	b.controllerSays(VirtualHost, "n1", nil, host)
	b.want("to Envoy", b.sent(), []string{"+443/example@1"})
	b.ack(VirtualHost)
	b.want("kept", b.kept(VirtualHost), "443/example@1")
}

func TestRejectedResourcesAreFound(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(ClusterType)
	b.controllerOpen()
	b.controllerSays(ClusterType, "n1", nil, res("bad1", "1"), res("good", "1"))
	b.ack(ClusterType)
	b.controllerSays(ClusterType, "n2", nil, res("a", "1"), res("bad1", "2"), res("b", "1"), res("c", "1"), res("bad2", "1"))
	b.told()

	// Envoy rejects whatever holds a bad one, until there is nothing more to say.
	for k := b.kind(ClusterType); len(k.inflight) > 0; {
		req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: k.inflight[0].nonce}
		for _, r := range k.inflight[0].resources {
			if strings.HasPrefix(r.GetName(), "bad") {
				req.ErrorDetail = &statuspb.Status{Message: r.GetName() + " is bad"}
			}
		}
		b.envoyRequest(req)
	}
	b.want("one NACK to the controller", b.told(), []string{"Cluster nack n2"})
	b.want("the good ones and the last good version are kept", b.kept(ClusterType), "a@1 b@1 bad1@1 c@1 good@1")
	b.want("rejected", b.kind(ClusterType).rejected, map[string]Rejection{
		"bad1": {Version: "2", Reason: "bad1 is bad"}, "bad2": {Version: "1", Reason: "bad2 is bad"},
	})
	b.sent()
	b.controllerSays(ClusterType, "n3", []string{"bad2"}, res("bad1", "3"))
	b.want("the next version is tried", b.sent(), []string{"+bad1@3"})
	b.ack(ClusterType)
	b.want("nothing is rejected any more", len(b.kind(ClusterType).rejected), 0)
}

// TestRemovalsOfARefusedResponseAreTold: Envoy's refusal is of what it was given, not of what it lost.
func TestRemovalsOfARefusedResponseAreTold(t *testing.T) {
	b := newBench(t, t.TempDir())
	var gone []string
	b.taken = func(_ string, _ []*discoveryv3.Resource, removed []string) { gone = append(gone, removed...) }
	b.subscribe(ClusterType)
	b.controllerOpen()
	b.controllerSays(ClusterType, "n1", nil, res("a", "1"), res("b", "1"))
	b.ack(ClusterType)
	b.controllerSays(ClusterType, "n2", []string{"a"}, res("b", "2"))
	nonce := b.kind(ClusterType).inflight[0].nonce
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: nonce, ErrorDetail: &statuspb.Status{Message: "b is bad"}})
	b.want("told", gone, []string{"a"})
}

func TestRejectionLeavesNewerVersionAlone(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(ClusterType)
	b.controllerOpen()
	b.controllerSays(ClusterType, "n1", nil, res("a", "1"), res("b", "1"))
	b.controllerSays(ClusterType, "n2", nil, res("a", "2"))
	b.want("in order", b.sent(), []string{"+a@1 +b@1", "+a@2"})
	first := b.kind(ClusterType).inflight[0].nonce
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: first, ErrorDetail: &statuspb.Status{Message: "no"}})
	b.want("a@1 is not sent after a@2", b.sent(), []string(nil))
	b.ack(ClusterType)
	b.want("kept", b.kept(ClusterType), "a@2")
}

func TestReconnectAsksOnlyForWhatDiffers(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(ClusterType)
	b.controllerOpen()
	b.controllerSays(ClusterType, "n1", nil, res("a", "1"), res("b", "1"))
	b.ack(ClusterType)
	b.subscribe(EndpointType, "x")
	b.controllerSays(ClusterType, "n2", nil, res("c", "1"))
	b.sent()
	b.told()
	b.controllerGone()
	b.ack(ClusterType) // of n2: the stream that sent it is gone
	b.controllerOpen()
	b.want("requests", b.told(), []string{"Cluster node a@1 b@1 c@1", "ClusterLoadAssignment +x"})
	b.controllerSays(ClusterType, "m1", nil, res("b", "2"))
	b.want("to Envoy", b.sent(), []string{"+b@2"})
}

func TestServedFromDisk(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, dir)
	for url, r := range map[string]*discoveryv3.Resource{ClusterType: res("c", "1"), EndpointType: res("e", "1"), ListenerType: res("l", "1")} {
		b.kind(url).table.Put(r)
	}
	if err := b.store.Flush(); err != nil {
		t.Fatal(err)
	}

	t.Run("controller silent", func(t *testing.T) {
		b := newBench(t, dir)
		b.subscribe(ClusterType)
		b.want("nothing yet", b.sent(), []string(nil))
		b.losePatience()
		b.want("nothing yet", b.sent(), []string(nil))
		b.losePatience()
		b.want("the disk's", b.sent(), []string{"+c@1"})
		b.ack(ClusterType)
		b.subscribe(EndpointType, "e", "gone")
		b.want("at once now", b.sent(), []string{"+e@1"})
		b.subscribe(ListenerType)
		b.want("at once now", b.sent(), []string{"+l@1"})
	})
	t.Run("refused", func(t *testing.T) {
		b := newBench(t, dir)
		b.stopWaiting()
		b.subscribe(ClusterType)
		b.want("at once", b.sent(), []string{"+c@1"})
		b.subscribe(RouteType)
		b.want("never known", b.sent(), []string(nil))
		b.controllerOpen()
		b.want("asks", b.told(), []string{"Cluster node c@1", "RouteConfiguration"})
		b.controllerSays(ClusterType, "n1", []string{"c"}, res("d", "1"))
		b.want("reconciled", b.sent(), []string{"+d@1 -c"})
	})
	t.Run("controller answers with what differs", func(t *testing.T) {
		b := newBench(t, dir)
		b.subscribe(ClusterType)
		b.controllerOpen()
		b.want("asks", b.told(), []string{"Cluster node c@1"})
		b.controllerSays(ClusterType, "n1", nil, res("d", "1"))
		b.want("one response with both", b.sent(), []string{"+d@1 +c@1"})
		b.subscribe(EndpointType, "e", "f")
		b.want("a known name at once", b.sent(), []string{"+e@1"})
		b.controllerSays(EndpointType, "n2", nil, res("e", "2"), res("f", "1"))
		b.want("then the rest", b.sent(), []string{"+e@2 +f@1"})
		b.subscribe(ListenerType)
		b.losePatience()
		b.losePatience()
		b.want("a controller that says nothing when nothing differs", b.sent(), []string{"+l@1"})
	})
}

func TestEnvoyReturnsWithVersions(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.kind(ClusterType).table.Put(res("a", "1"))
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, InitialResourceVersions: map[string]string{"a": "1", "lost": "7", "old": "1"}})
	b.controllerOpen()
	b.want("asks for what has no body", b.told(), []string{"Cluster node a@1 lost@ old@"})
	b.controllerSays(ClusterType, "n1", []string{"old"}, res("lost", "7"))
	b.want("nothing that Envoy holds", b.sent(), []string{"-old"})
	b.ack(ClusterType)
	b.want("kept", b.kept(ClusterType), "a@1 lost@7")
}

// TestServedAtOnceAfterACrash: an Envoy that follows one that had everything waits for nobody, unless something was said in between.
func TestServedAtOnceAfterACrash(t *testing.T) {
	running := func(t *testing.T) *bench {
		b := newBench(t, t.TempDir())
		b.subscribe(ClusterType)
		b.controllerOpen()
		b.controllerSays(ClusterType, "n1", nil, res("c", "1"))
		b.ack(ClusterType)
		b.subscribe(EndpointType, "e")
		b.controllerSays(EndpointType, "n2", nil, res("e", "1"))
		b.ack(EndpointType)
		b.sent()
		b.told()
		return b
	}
	comes := func(b *bench) { // as the loop has it
		b.envoyGone()
		b.controllerGone()
		b.subscribe(ClusterType)
	}
	t.Run("at once", func(t *testing.T) {
		b := running(t)
		b.envoyGone()
		comes(b)
		b.want("clusters", b.sent(), []string{"+c@1"})
		b.subscribe(EndpointType, "e")
		b.want("endpoints", b.sent(), []string{"+e@1"})
		b.controllerOpen()
		b.want("asks for what differs", b.told(), []string{"Cluster node c@1", "ClusterLoadAssignment +e e@1"})
		b.controllerSays(ClusterType, "m1", []string{"c"}, res("d", "1"))
		b.want("what changed meanwhile", b.sent(), []string{"+d@1 -c"})
	})
	t.Run("and again before the controller says anything", func(t *testing.T) {
		b := running(t)
		b.envoyGone()
		comes(b)
		b.sent()
		b.controllerOpen()
		b.envoyGone()
		comes(b)
		b.want("clusters", b.sent(), []string{"+c@1"})
	})
	for what, between := range map[string]func(*bench){
		"the controller was lost": func(b *bench) {
			b.envoyGone()
			b.controllerGone()
		},
		"it was lost before, and cannot be reached": func(b *bench) {
			b.controllerGone()
			b.controllerGone()
			b.envoyGone()
		},
		"it was lost before, and has said nothing since": func(b *bench) {
			b.controllerGone()
			b.controllerOpen()
			b.envoyGone()
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := running(t)
			between(b)
			comes(b)
			b.want("what the one before had", b.sent(), []string{"+c@1"})
			b.controllerOpen()
			b.controllerSays(ClusterType, "m1", nil, res("c", "3"))
			b.want("and what is new", b.sent(), []string{"+c@3"})
		})
	}
	for what, between := range map[string]func(*bench){
		"something was said while there was no Envoy": func(b *bench) {
			b.envoyGone()
			b.controllerSays(ClusterType, "n3", []string{"c"})
		},
		"Envoy had not taken everything": func(b *bench) {
			b.controllerSays(ClusterType, "n3", nil, res("c", "2"))
			b.sent()
			b.envoyGone()
		},
		"nor before it, whom the controller was lost to": func(b *bench) {
			b.controllerSays(ClusterType, "n3", nil, res("c", "2"))
			b.sent()
			b.controllerGone()
			b.envoyGone()
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := running(t)
			between(b)
			comes(b)
			b.want("nothing yet", b.sent(), []string(nil))
			b.controllerOpen()
			b.controllerSays(ClusterType, "m1", nil, res("c", "3"))
			b.want("the controller's", b.sent(), []string{"+c@3"})
		})
	}
}

func TestResubscribedNameIsSentAgain(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.controllerOpen()
	b.subscribe(EndpointType, "x")
	b.controllerSays(EndpointType, "n1", nil, res("x", "1"))
	b.ack(EndpointType)
	b.sent()
	b.subscribe(EndpointType, "x")
	b.want("at once, from what is kept", b.sent(), []string{"+x@1"})
}

func TestWatch(t *testing.T) {
	const names = "type.googleapis.com/test.Name"
	held := map[string]string{}
	watch := Watch{TypeURL: names, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		refused := map[string]error{}
		for _, r := range changed {
			if r.GetName() == "bad" {
				refused["bad"] = errors.New("is bad")
				continue
			}
			held[r.GetName()] = r.GetVersion()
		}
		for _, name := range removed {
			delete(held, name)
		}
		return refused
	}}
	dir := t.TempDir()
	b := newBench(t, dir, watch)
	b.controllerOpen()
	b.want("asks without Envoy", b.told(), []string{"Name node"})
	b.controllerSays(names, "n1", nil, res("a", "1"), res("bad", "1"), res("b", "1"))
	b.want("the bad one is refused", b.told(), []string{"Name nack n1"})
	b.controllerSays(names, "n2", []string{"b"}, res("a", "2"))
	b.want("ACK", b.told(), []string{"Name ack n2"})
	b.want("applied", held, map[string]string{"a": "2"})
	b.want("Envoy hears nothing of it", b.sent(), []string(nil))
	b.subscribe(names)
	b.want("even if it asks", b.sent(), []string(nil))
	if err := b.store.Flush(); err != nil {
		t.Fatal(err)
	}

	held = map[string]string{}
	again := newBench(t, dir, watch)
	again.restore()
	again.want("restored", held, map[string]string{"a": "2"})
	again.controllerOpen()
	again.want("asks with versions", again.told(), []string{"Name node a@2"})
}

// TestInForce: the controller hears of what the agent was told when that counts, if it is still the same stream.
func TestInForce(t *testing.T) {
	const pods = "type.googleapis.com/test.Pod"
	var counts chan struct{}
	b := newBench(t, t.TempDir(), Watch{
		TypeURL: pods,
		Apply:   func([]*discoveryv3.Resource, []string) map[string]error { return nil },
		InForce: func() <-chan struct{} { return counts },
	})
	var later []func()
	b.after = func(_ <-chan struct{}, do func()) { later = append(later, do) }
	b.controllerOpen()
	b.told()
	b.controllerSays(pods, "n1", nil, res("a", "1"))
	b.want("it counts at once", b.told(), []string{"Pod ack n1"})
	counts = make(chan struct{})
	b.controllerSays(pods, "n2", nil, res("a", "2"))
	b.want("not yet", b.told(), []string(nil))
	later[0]()
	b.want("now", b.told(), []string{"Pod ack n2"})
	b.controllerSays(pods, "n3", nil, res("a", "3"))
	b.controllerGone()
	b.controllerOpen()
	b.told()
	later[1]()
	b.want("another stream", b.told(), []string(nil))
}
