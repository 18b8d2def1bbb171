package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	listenerservicev3 "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/ambient"
)

// ListenerType is the type URL of Envoy's listeners.
const ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"

// Listeners is what Envoy has of listeners: those that the controller gave, and of its templates one set for each pod. Envoy takes them on
// a stream of its own, since what is refused has to be tried again: a pod's network may not be there yet, or a cluster.
type Listeners struct {
	listenerservicev3.UnimplementedListenerDiscoveryServiceServer
	log    *slog.Logger
	tables string // the folder of files that say which ports have tables, by template

	mu        sync.Mutex
	templates map[string]*listenerv3.Listener
	shared    map[string][]byte      // of templates, what is the same in all pods, by the template's name; made when it is needed
	pods      map[string]podListener // by the pod's key
	now       map[string]*opened
	changed   chan struct{}     // closed when now is replaced
	taken     bool              // the connected Envoy has said yes to all there was
	refused   map[string]string // why Envoy refuses what it has not taken, by the pod's key; nil where something else lacks, too
}

func newListeners(log *slog.Logger, tables string) *Listeners {
	return &Listeners{log: log, tables: tables, templates: map[string]*listenerv3.Listener{}, shared: map[string][]byte{}, pods: map[string]podListener{}, now: map[string]*opened{}, changed: make(chan struct{})}
}

// apply takes what the controller gives.
func (l *Listeners) apply(changed []*discoveryv3.Resource, removed []string) map[string]error {
	refused := map[string]error{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range changed {
		m := &listenerv3.Listener{}
		err := proto.Unmarshal(r.GetResource().GetValue(), m)
		if err == nil && ambient.Template(r.GetName()) != "" {
			err = tablesApart(l.tables, m)
		}
		if err != nil {
			refused[r.GetName()] = err
			continue
		}
		l.templates[r.GetName()] = m
		delete(l.shared, r.GetName())
	}
	for _, name := range removed {
		delete(l.templates, name)
		delete(l.shared, name)
	}
	l.make()
	return refused
}

// open and close say which pods have listeners. The others' are not looked at for it.
func (l *Listeners) open(pod string, d podListener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[pod] = d
	now := maps.Clone(l.now)
	l.putAllIn(now, pod, d)
	l.replace(now)
}

// putAllIn puts a pod's listeners together. What there is no template of yet stays as it was.
func (l *Listeners) putAllIn(into map[string]*opened, pod string, d podListener) {
	for _, name := range ambient.Templates {
		if t := l.templates[d.template(name)]; t != nil {
			l.putIn(into, t, pod, d)
		} else if was := l.now[nameIn(name, pod)]; was != nil {
			into[nameIn(name, pod)] = was
		}
	}
}

func (l *Listeners) close(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, pod)
	now := maps.Clone(l.now)
	for _, name := range ambient.Templates {
		delete(now, nameIn(name, pod))
	}
	l.replace(now)
}

// make puts together what Envoy should have.
func (l *Listeners) make() {
	now := map[string]*opened{}
	for name, t := range l.templates {
		if ambient.Template(name) == "" {
			l.put(now, t)
		}
	}
	for pod, d := range l.pods {
		l.putAllIn(now, pod, d)
	}
	l.replace(now)
}

// replace has Envoy told what it should have now, a map that nobody changes any more.
func (l *Listeners) replace(now map[string]*opened) {
	l.now, l.taken, l.refused = now, false, nil
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Listeners) putIn(into map[string]*opened, template *listenerv3.Listener, pod string, d podListener) {
	m, err := d.listener(template, pod)
	if err != nil { // it stays closed
		l.log.Error("a pod's listener cannot be made", "listener", nameIn(template.Name, pod), "err", err)
		return
	}
	if _, alone := d.templates[ambient.PodOutbound]; ambient.Template(template.Name) != ambient.PodOutbound || alone {
		l.put(into, m)
		return
	}
	own := &listenerv3.Listener{Name: m.Name, Address: m.Address, AdditionalAddresses: m.AdditionalAddresses, Metadata: m.Metadata}
	m.Name, m.Address, m.AdditionalAddresses, m.Metadata = "", nil, nil, nil
	shared := l.shared[template.Name]
	if shared == nil {
		if shared, err = deterministic.Marshal(m); err != nil {
			l.log.Error("a listener cannot be written", "listener", own.Name, "err", err)
			return
		}
		l.shared[template.Name] = shared
	}
	l.putBeside(into, shared, own)
}

// put puts a listener among those that Envoy should have.
func (l *Listeners) put(into map[string]*opened, m *listenerv3.Listener) { l.putBeside(into, nil, m) }

// putBeside does, where the rest of it is what others have, too.
func (l *Listeners) putBeside(into map[string]*opened, shared []byte, m *listenerv3.Listener) {
	body, err := deterministic.Marshal(m)
	if err != nil {
		l.log.Error("a listener cannot be written", "listener", m.Name, "err", err)
		return
	}
	hash := sha256.New()
	for _, part := range [][]byte{shared, body} {
		_, _ = hash.Write(part)
	}
	into[m.Name] = &opened{version: hex.EncodeToString(hash.Sum(nil)[:16]), shared: shared, own: body}
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// opened is a listener as Envoy is sent it: most of what a pod sends is the same for all pods of a template, and is kept once. Messages of which one is written behind
// the other are one (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
type opened struct {
	version     string
	shared, own []byte
}

// resource is it, whole.
func (o *opened) resource(name string) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: o.version, Resource: &anypb.Any{TypeUrl: ListenerType, Value: slices.Concat(o.shared, o.own)}}
}

// Taken says whether the connected Envoy has taken all that there is.
func (l *Listeners) Taken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken && len(l.templates) > 0
}

// refusals is why Envoy refuses listeners in pods, by the pod's key, where it has taken all others.
func (l *Listeners) refusals() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// How long it takes until what was refused is sent again.
const (
	againFirst = 50 * time.Millisecond
	againMost  = 5 * time.Second
)

// DeltaListeners serves Envoy. One response is under way at a time.
func (l *Listeners) DeltaListeners(stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	requests, failed := make(chan *discoveryv3.DeltaDiscoveryRequest), make(chan error, 1)
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	s := conversation{has: map[string]string{}, wait: againFirst}
	first, asked := true, (chan struct{})(nil) // asked: what there was when Envoy was sent what is under way
	for {
		l.mu.Lock()
		now, changed := l.now, l.changed
		l.mu.Unlock()
		if !first && s.nonce == "" && s.again == nil {
			response := s.response(now)
			asked = changed
			if response != nil {
				if err := stream.Send(response); err != nil {
					return err
				}
			} else {
				l.settle(changed)
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case err := <-failed:
			return err
		case <-changed:
		case <-s.again:
			s.again = nil
		case r := <-requests:
			if first {
				first = false
				for name, version := range r.GetInitialResourceVersions() {
					s.has[name] = version
				}
			}
			if why := s.heard(r); why != "" {
				l.log.Warn("Envoy refused listeners; they are tried again", "why", why, "in", s.wait)
				l.settleBut(asked, s.sent, why)
			}
		}
	}
}

// settle notes that Envoy has everything, unless there is something new.
func (l *Listeners) settle(seen chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen == l.changed {
		l.taken, l.refused = true, nil
	}
}

// settleBut notes that Envoy has everything but what it refused, unless there is something new, or it does not say of whom that is.
func (l *Listeners) settleBut(seen chan struct{}, sent []string, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen != l.changed {
		return
	}
	l.refused = podsIn(sent, why)
}

// podsIn are the pods whose listeners Envoy's message names, one a line, each with the reason; nil where it names others.
func podsIn(sent []string, message string) map[string]string {
	pods := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(message, refusalsBegin)) {
		for _, name := range sent {
			why, is := strings.CutPrefix(line, name+": ")
			if !is {
				continue
			}
			template, pod, inPod := strings.Cut(name, "/")
			if !inPod || !slices.Contains(ambient.Templates, template) {
				return nil
			}
			pods[pod] = strings.TrimSpace(why)
		}
	}
	return pods
}

// refusalsBegin is what Envoy's answer begins with when it refuses listeners.
const refusalsBegin = "Error adding/updating listener(s) "

// conversation is one stream: what Envoy has, and what is under way.
type conversation struct {
	has   map[string]string // name → version
	sent  []string          // names of what is under way
	nonce string            // of what is under way; "" when nothing is
	count int
	again <-chan time.Time // when what was refused is tried again
	wait  time.Duration
}

// response is what Envoy lacks; nil when it has everything.
func (c *conversation) response(now map[string]*opened) *discoveryv3.DeltaDiscoveryResponse {
	out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ListenerType}
	c.sent = nil
	for name, o := range now {
		if c.has[name] != o.version {
			c.sent = append(c.sent, name)
		}
	}
	slices.Sort(c.sent)
	for _, name := range c.sent {
		out.Resources = append(out.Resources, now[name].resource(name))
		c.has[name] = now[name].version
	}
	for name := range c.has {
		if now[name] == nil {
			out.RemovedResources = append(out.RemovedResources, name)
		}
	}
	slices.Sort(out.RemovedResources)
	for _, name := range out.RemovedResources {
		delete(c.has, name)
	}
	if len(out.Resources)+len(out.RemovedResources) == 0 && c.count > 0 {
		return nil
	}
	c.count++
	c.nonce = fmt.Sprint(c.count)
	out.Nonce = c.nonce
	return out
}

// heard takes Envoy's word. Of what it refused, the good ones are taken, and nothing is done when they come again.
func (c *conversation) heard(r *discoveryv3.DeltaDiscoveryRequest) (refusal string) {
	if r.GetResponseNonce() == "" || r.GetResponseNonce() != c.nonce {
		return ""
	}
	c.nonce = ""
	if r.GetErrorDetail() == nil {
		c.wait = againFirst
		return ""
	}
	for _, name := range c.sent {
		c.has[name] = ""
	}
	c.again = time.After(c.wait)
	c.wait = min(2*c.wait, againMost)
	return r.GetErrorDetail().GetMessage()
}
