package registry

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// World is how the Gateway API's objects find each other.
func (s *Snapshot) World() gatewayapi.World {
	return world{s.gatewayAPI.Get, s.hosts.Get, s.listeners, s}
}

type world struct {
	find  func(string) (*config.Object, bool)
	hosts func(string) ([]*Service, bool)
	kept  *keptListeners // nil: what is found is not kept, since more may come
	*Snapshot
}

// keptListeners are those that were found: whose they are and which contradict each other is asked for each route and each ListenerSet, of
// which a Gateway may have as many as namespaces like to write.
type keptListeners struct {
	mu    sync.Mutex
	found map[config.Key]*gatewayapi.Opened
}

func (w world) Opened(gateway config.Key, read func() *gatewayapi.Opened) *gatewayapi.Opened {
	if g := w.gateways[gateway]; g != nil { // whose servers are made of them
		return g.listeners
	}
	if w.kept == nil {
		return read()
	}
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	is := w.kept.found[gateway]
	if is == nil {
		if w.kept.found == nil {
			w.kept.found = map[config.Key]*gatewayapi.Opened{}
		}
		is = read()
		w.kept.found[gateway] = is
	}
	return is
}

func (w world) Object(key config.Key) *config.Object {
	o, _ := w.find(key.String())
	return o
}

func (w world) Sets(gateway config.Key) []*config.Object { return w.sets[gateway] }

func (w world) NamespaceLabels(ns string) map[string]string { return w.namespaceLabels(ns) }

func (w world) Grants(ns string) []*gatewayv1.ReferenceGrantSpec { return w.grants[ns] }

func (w world) Ports(name types.NamespacedName) (out []gatewayapi.Port, there bool) {
	list, _ := w.hosts(Ref(name).Host())
	i := slices.IndexFunc(list, func(s *Service) bool { return s.Source.Kind == config.KindService })
	if i < 0 {
		return nil, false
	}
	for _, p := range list[i].Ports {
		out = append(out, gatewayapi.Port{Number: p.Number, Reads: p.Protocol.IsHTTP(), TLS: p.Protocol == TLS, UDP: p.Protocol == UDP})
	}
	return out, true
}

func (w world) ByClientIP(name types.NamespacedName) bool {
	list, _ := w.hosts(Ref(name).Host())
	return slices.ContainsFunc(list, func(s *Service) bool { return s.ByClientIP })
}

// namespaceLabels are those of a namespace, with its own name, as the API server writes it.
func (s *Snapshot) namespaceLabels(ns string) map[string]string {
	own := s.namespaces[ns]
	if own["kubernetes.io/metadata.name"] != "" {
		return own
	}
	out := map[string]string{"kubernetes.io/metadata.name": ns}
	maps.Copy(out, own)
	return out
}

// Attached is how many routes count at a listener.
func (s *Snapshot) Attached(listener string) int {
	n, _ := s.attached.Get(listener)
	return n
}

// gatewayAPIUses is the writer's memory of who names what.
type gatewayAPIUses struct {
	parents users[config.Key] // the routes that name a Gateway, or a Service, as a parent
	within  users[string]     // Gateways and routes that name an object of another namespace
	shown   users[config.Key] // the objects that name a Secret or a ConfigMap
	backed  users[string]     // the routes that name a Service, or a host, as a backend
	targets users[string]     // the BackendTLSPolicies that are for a Service, by its host
}

// ofGatewayAPI says whether it is what became of a route of the Gateway API.
func (v *VirtualService) ofGatewayAPI() bool { return v.Key.Kind != config.KindVirtualService }

// setGatewayAPI takes an object of the Gateway API in. What follows is settled once all of the batch is there.
func (b *batch) setGatewayAPI(c config.Change) {
	b.unseen = true
	b.retold[c.Key] = true
	was, _ := b.gatewayAPI.Get(c.Key.String())
	if c.Object == nil {
		b.gatewayAPI.Delete(c.Key.String())
	} else {
		b.gatewayAPI.Put(c.Key.String(), c.Object)
	}
	switch c.Key.Kind {
	case config.KindGatewayClass:
		b.changed.Waypoints = true
		for key := range b.objects.Of(config.KindKubeGateway) {
			b.remade[key] = true
		}
	case config.KindReferenceGrant:
		b.setGrants(c.Key.Namespace)
		for key := range b.index.gatewayAPI.within[c.Key.Namespace] {
			b.remade[key] = true
		}
	case config.KindBackendTLSPolicy:
		b.setBackendTLS(was, c.Object)
	case config.KindListenerSet:
		b.setListenerSet(was, c.Object)
	default:
		if ofWaypoint(was) || ofWaypoint(c.Object) {
			b.changed.Waypoints = true
			if classNamed(was) != classNamed(c.Object) && b.next.targetsClasses() {
				b.authorized[b.next.Mesh.RootNamespace] = true
			}
		}
		b.noteUses(was, false)
		b.noteUses(c.Object, true)
		b.remade[c.Key] = true
	}
}

func (b *batch) setGrants(ns string) {
	var list []*gatewayv1.ReferenceGrantSpec
	b.gatewayAPI.WalkPrefix(string(config.KindReferenceGrant)+" "+ns+"/", func(_ string, o *config.Object) bool {
		list = append(list, o.Spec.(*gatewayv1.ReferenceGrantSpec))
		return true
	})
	if b.next.grants = maps.Clone(b.next.grants); b.next.grants == nil {
		b.next.grants = map[string][]*gatewayv1.ReferenceGrantSpec{}
	}
	if b.next.grants[ns] = list; len(list) == 0 {
		delete(b.next.grants, ns)
	}
}

// noteUses remembers whom an object names.
func (b *batch) noteUses(o *config.Object, uses bool) {
	if o == nil {
		return
	}
	x := &b.index.gatewayAPI
	b.noteNamed(o, uses)
	for _, key := range named.Objects(o) {
		x.within.note(key.Namespace, o.Key, uses)
	}
	if spec, of := o.Spec.(*gatewayv1.GatewaySpec); of && gatewayapi.IsEgress(spec.GatewayClassName) {
		named, _ := gatewayapi.EgressService(spec)
		x.backed.note(b.next.StandsFor(named).Host(), o.Key, uses) // whether it is there is told
	}
	r, is := gatewayapi.RouteOf(o)
	if !is {
		return
	}
	for _, p := range r.Parents {
		if key, of := r.GatewayOf(p); of {
			x.parents.note(key, o.Key, uses)
		}
		if key, of := r.SetOf(p); of {
			x.parents.note(key, o.Key, uses)
		}
		if name, of := r.ServiceOf(p); of {
			x.parents.note(config.Key{Kind: config.KindService, Namespace: name.Namespace, Name: name.Name}, o.Key, uses)
		}
	}
	for _, ref := range r.Backends() {
		x.backed.note(r.HostOf(ref.BackendObjectReference), o.Key, uses)
		if ref.Namespace != nil && string(*ref.Namespace) != o.Namespace {
			x.within.note(string(*ref.Namespace), o.Key, uses)
		}
	}
}

// relabel looks at Gateways again that ask for namespaces' labels.
func (b *batch) relabel() {
	for parent, routes := range b.index.gatewayAPI.parents {
		if o := b.objects.Get(parent); o != nil && parent.Kind != config.KindService && gatewayapi.BySelector(o) {
			maps.Copy(b.remade, routes)
		}
	}
	for gateway := range b.next.sets {
		if o := b.objects.Get(gateway); o != nil && gatewayapi.BySelector(o) {
			b.remade[gateway] = true
		}
	}
}

// settleGatewayAPI makes Gateways again, and then the routes that are for them.
func (b *batch) settleGatewayAPI() {
	b.remakeSessions()
	if len(b.remade)+len(b.reset) == 0 {
		return
	}
	w := world{b.gatewayAPI.Get, b.hosts.Get, &keptListeners{}, b.next}
	b.remakeParents()
	b.remakeGateways(w)
	for _, key := range slices.SortedFunc(maps.Keys(b.remade), config.Key.Compare) {
		b.retold[key] = true
		if key.Kind != config.KindKubeGateway {
			b.makeRoute(w, key)
			b.makeMeshRoute(w, key)
		}
	}
	b.joinMeshRoutes()
}

// remakeSessions looks again at routes with sessions whose backends have changed: what those are decides whether the routes count.
func (b *batch) remakeSessions() {
	for host := range b.touched {
		for key := range b.index.gatewayAPI.backed[host] {
			if o := b.objects.Get(key); o != nil && route.HasSession(o.Spec) {
				b.remade[key] = true
			}
		}
	}
}

// fromKubeGateway is what gateways' pods open for a Gateway of the Gateway API; nil where it is not ours. What was made before of its ListenerSets counts on,
// but for those that are to be read again.
func (b *batch) fromKubeGateway(w world, key config.Key, was *Gateway) *Gateway {
	o := b.objects.Get(key)
	if o == nil {
		return nil
	}
	if spec := o.Spec.(*gatewayv1.GatewaySpec); !gatewayapi.IsOurs(w, spec.GatewayClassName) || gatewayapi.Unacceptable(spec).Is() || gatewayapi.IsWaypoint(spec.GatewayClassName) || gatewayapi.IsEgress(spec.GatewayClassName) {
		return nil
	}
	g := &Gateway{Key: key, Revision: o.Revision, Created: o.Created, Selector: map[string]string{gatewayapi.GatewayLabel: key.Name}, Hash: o.Hash}
	if was == nil {
		g.listeners = gatewayapi.Open(w, o, nil, nil)
	} else {
		g.listeners = gatewayapi.Open(w, o, was.listeners, func(set config.Key) bool { return b.reread[set] })
	}
	for i := range g.listeners.Own {
		g.Servers = append(g.Servers, fromKubeListener(&g.listeners.Own[i]))
	}
	g.makeSets(was)
	g.countDatagrams()
	if secret, problem, shows := gatewayapi.ClientCertificate(w, o); shows {
		g.Shows = &BackendClientCertificate{CredentialRef{Namespace: secret.Namespace, Name: secret.Name}, problem.Message}
	}
	return g
}

// fromKubeListener is one of its servers.
func fromKubeListener(l *gatewayapi.Listener) GatewayServer {
	s := GatewayServer{
		Port: l.Port, Protocol: ParseProtocol(string(l.Protocol)), Opaque: l.Passes || l.Protocol != gatewayv1.HTTPProtocolType && l.Protocol != gatewayv1.HTTPSProtocolType,
		Hosts: []HostFilter{{"*", l.Host}}, Name: l.Name, Ref: l.Ref,
	}
	switch {
	case !l.Opens() && !l.Shut():
		s.Why = "the listener " + l.Name + ": " + l.Unaccepted.Message + l.Conflict.Message + l.Refs.Message
		return s
	case l.Protocol == gatewayv1.HTTPProtocolType:
		s.Serves = ServesRequests
	case l.Protocol == gatewayv1.TCPProtocolType:
		s.Serves = ServesBytes
	case l.Protocol == gatewayv1.UDPProtocolType:
		s.Serves = ServesDatagrams
	case l.Passes:
		s.Serves = PassesTLS
	case l.Protocol == gatewayv1.HTTPSProtocolType:
		s.Serves = ServesTLSRequests
	default:
		s.Serves = ServesTLSBytes
	}
	if l.Set.Name != "" { // listeners of several objects may have one name
		s.Name += "." + l.Set.Name + "." + l.Set.Namespace
	}
	s.Alone = !s.Serves.Nameless()
	if s.Serves.EndsTLS() {
		s.TLS = &ServerTLS{}
		if l.Shut() {
			s.Shut = "the listener " + l.Name + ": " + l.Refs.Message
		}
		for _, c := range l.Certificates {
			s.TLS.Credentials = append(s.TLS.Credentials, c.String())
		}
		if l.Clients != nil {
			s.TLS.Trust, s.TLS.Clients = Bundle(l.Clients.CAs), Required
			if l.Clients.Unverified {
				s.TLS.Clients = Unverified
			}
		}
	}
	return s
}

// makeRoute makes what gateways do by a route of the Gateway API.
func (b *batch) makeRoute(w world, key config.Key) {
	x := &b.index.virtual
	was := x.made[key]
	is := b.fromRoute(w, key)
	switch {
	case is != nil && len(is.Leaves) > 0:
		b.register(key, b.asEntries(b.objects.Get(key), is.Leaves))
	case len(b.hostsOf.Get(key)) > 0:
		b.register(key, nil)
	}
	if was != nil && is != nil && was.Hash == is.Hash {
		return
	}
	if delete(x.made, key); is != nil {
		x.made[key] = is
	}
	b.noteVirtual(was, false)
	b.noteVirtual(is, true)
}

func (b *batch) fromRoute(w world, key config.Key) *VirtualService {
	o := b.objects.Get(key)
	if o == nil {
		return nil
	}
	r, _ := gatewayapi.RouteOf(o)
	v := &VirtualService{Key: key, Revision: o.Revision, Created: o.Created, Hosts: slices.Clone(r.Hostnames), ExportTo: ExportTo{All: true}}
	attached := r.Attach(w)
	gateways := false
	refs := map[gatewayapi.Way][]string{}
	for _, p := range attached {
		gateways = gateways || !p.OfMesh()
		v.Gateways = append(v.Gateways, p.Refs...)
		refs[p.Way()] = append(refs[p.Way()], p.Refs...)
	}
	if !gateways {
		return nil
	}
	slices.Sort(v.Gateways)
	v.Gateways = slices.Compact(v.Gateways)
	if len(v.Hosts) == 0 {
		v.Hosts = []string{"*"}
	}
	v.Leaves = b.letsOutBy(attached)
	for _, way := range [...]gatewayapi.Way{gatewayapi.Into, gatewayapi.Outside} {
		if of := refs[way]; len(of) > 0 {
			slices.Sort(of)
			v.Routes = v.And(r.Routes(w, slices.Compact(of), way))
		}
	}
	return v.seal()
}

// countAttached counts again at the listeners that a route is or was for.
func (b *batch) countAttached(v *VirtualService) {
	for _, ref := range v.Gateways {
		if n := len(b.index.virtual.boundTo[ref]); n > 0 {
			b.attached.Put(ref, n)
		} else {
			b.attached.Delete(ref)
		}
		if set, of := gatewayapi.SetOf(ref); of {
			b.retold[set] = true
		} else if key, _, of := gatewayapi.ParseRef(ref); of {
			b.retold[key] = true
		}
	}
}

// tellGatewayAPI says of which objects something else may be to be told.
func (b *batch) tellGatewayAPI() {
	for host := range b.touched {
		maps.Copy(b.retold, b.index.gatewayAPI.backed[host])
		maps.Copy(b.retold, b.index.gatewayAPI.targets[host])
	}
	if b.datagramsTurned || len(b.authorized) > 0 {
		b.retellDatagrams()
	}
	b.changed.GatewayAPI = slices.SortedFunc(maps.Keys(b.retold), config.Key.Compare)
}

// retellDatagrams has the Gateways told again that open UDP, whose policies say whether anything comes in there.
func (b *batch) retellDatagrams() {
	everywhere := b.datagramsTurned || b.authorized[b.next.Mesh.RootNamespace]
	for key, g := range b.next.gateways {
		if g.datagrams == 0 || !everywhere && !b.authorized[key.Namespace] {
			continue
		}
		b.retold[key] = true
		for _, set := range b.next.sets[key] {
			b.retold[set.Key] = true
		}
	}
}
