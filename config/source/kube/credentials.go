package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/named"
)

// credentials watches the Secrets and ConfigMaps that rules, Gateways and policies name, each by itself: no other is ever asked for, so
// rights on a few namespaces, or on a few names, are enough, and nobody's else are in this process's memory.
type credentials struct {
	clients    *clients
	store      *store
	reflectors sync.WaitGroup
	running    map[config.Key]context.CancelFunc
	context    context.Context // of the reflectors
	none       bool            // nothing is asked for
}

func newCredentials(ctx context.Context, c *clients, s *store) *credentials {
	return &credentials{context: ctx, clients: c, store: s, running: map[config.Key]context.CancelFunc{}}
}

// follow watches what rules name now, and no longer what they named before. One goroutine calls it.
func (c *credentials) follow() {
	if c.none {
		return
	}
	wanted, changed := c.store.namedSecrets()
	if !changed {
		return
	}
	for key, cancel := range c.running {
		if !wanted[key] {
			cancel()
			delete(c.running, key)
			c.store.forgetSecret(key)
		}
	}
	for key := range wanted {
		if c.running[key] != nil {
			continue
		}
		c.store.expectSecret(key)
		one, cancel := context.WithCancel(c.context)
		c.running[key] = cancel
		c.reflectors.Go(func() { c.reflect(one, key) })
	}
}

// stop ends all and waits for it.
func (c *credentials) stop() {
	for _, cancel := range c.running {
		cancel()
	}
	c.reflectors.Wait()
}

func (c *credentials) reflect(ctx context.Context, key config.Key) {
	k := namedKind(key.Kind)
	k.namespace, k.selector = key.Namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
	from, err := c.clients.listerWatcher(k, k.versions[0])
	if err != nil {
		c.store.secretResult(key, err)
		return
	}
	result := func(_ kind, err error) { c.store.secretResult(key, err) }
	worked := func(_ kind, err error) {
		if err != nil {
			c.store.secretResult(key, err)
		}
	}
	c.clients.into(ctx, oneSecret{sink{c.store, k}, ctx, key}, k, observed(k, from, result, worked))
}

// namedKinds are those whose objects are read where they are named.
var namedKinds = [...]config.Kind{config.KindSecret, config.KindConfigMap}

func namedKind(k config.Kind) kind {
	if k == config.KindConfigMap {
		return own(k, corev1.SchemeGroupVersion, "configmaps", "", trimConfigMap)
	}
	return own(k, corev1.SchemeGroupVersion, "secrets", "", trimSecret)
}

// trimSecret keeps the values; what kubectl writes beside them has them too.
func trimSecret(s *corev1.Secret) version {
	trimmed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace}, Type: s.Type, Data: s.Data}
	m := s.ObjectMeta
	return native(config.KindSecret, &m, nil, trimmed)
}

// trimConfigMap keeps whom to trust.
func trimConfigMap(m *corev1.ConfigMap) version {
	trimmed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace}}
	if roots, there := m.Data[named.TrustKey]; there {
		trimmed.Data = map[string]string{named.TrustKey: roots}
	}
	meta := m.ObjectMeta
	return native(config.KindConfigMap, &meta, nil, trimmed)
}

// oneSecret is the store as the reflector of one Secret, or ConfigMap, sees it.
type oneSecret struct {
	sink
	ctx context.Context // ends when nobody names it any more
	key config.Key
}

var _ cache.TransformingStore = oneSecret{}

// Add takes over the Secret.
func (o oneSecret) Add(s any) error { return o.Update(s) }

// Update takes over the Secret.
func (o oneSecret) Update(s any) error {
	if o.ctx.Err() != nil {
		return nil
	}
	return o.sink.Update(s)
}

// Replace takes over everything that there is: the Secret, or nothing.
func (o oneSecret) Replace(list []any, _ string) error {
	if o.ctx.Err() != nil {
		return nil
	}
	for _, s := range list {
		if err := o.Update(s); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		o.store.remove(o.kind, o.key)
	}
	o.store.secretResult(o.key, nil)
	return nil
}

// namedSecrets are the Secrets and ConfigMaps that good objects name, and whether one of them, or a Service, changed since this was last asked.
func (s *store) namedSecrets() (map[config.Key]bool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rulesChanged {
		return nil, false
	}
	s.rulesChanged = false
	out := map[config.Key]bool{}
	for key, r := range s.objects[config.KindDestinationRule] {
		if r.good == nil || r.gone {
			continue
		}
		policy := r.good.Spec.(*networking.DestinationRule).GetTrafficPolicy()
		all := []*networking.ClientTLSSettings{policy.GetTls()}
		for _, p := range policy.GetPortLevelSettings() {
			all = append(all, p.GetTls())
		}
		for _, t := range all {
			if name := t.GetCredentialName(); name != "" {
				for _, n := range [...]string{name, name + "-cacert"} {
					out[config.Key{Kind: config.KindSecret, Namespace: key.Namespace, Name: n}] = true
				}
			}
		}
	}
	s.servedSecrets(out)
	return out, true
}

// servedSecrets adds those that Gateways name: they are of the namespaces of the gateways, which the selectors of Services tell. The
// caller holds the lock.
func (s *store) servedSecrets(out map[config.Key]bool) {
	for _, k := range [...]config.Kind{config.KindKubeGateway, config.KindListenerSet, config.KindBackendTLSPolicy} {
		for _, r := range s.objects[k] {
			if r.good == nil || r.gone {
				continue
			}
			for _, key := range named.Objects(r.good) {
				out[key] = true
			}
		}
	}
	for _, g := range s.objects[config.KindGateway] {
		if g.good == nil || g.gone {
			continue
		}
		spec := g.good.Spec.(*networking.Gateway)
		names := servedBy(spec)
		if len(names) == 0 {
			continue
		}
		for key, r := range s.objects[config.KindService] {
			if r.good == nil || r.gone || !carries(r.good.Spec.(*corev1.Service).Spec.Selector, spec.Selector) {
				continue
			}
			for _, name := range names {
				out[config.Key{Kind: config.KindSecret, Namespace: key.Namespace, Name: name}] = true
			}
		}
	}
}

// namesSecrets says whether objects of a kind may say which Secrets are read.
func namesSecrets(k config.Kind) bool {
	switch k {
	case config.KindDestinationRule, config.KindGateway, config.KindService, config.KindKubeGateway, config.KindListenerSet, config.KindBackendTLSPolicy:
		return true
	}
	return false
}

// servedBy are the names of a Gateway's Secrets.
func servedBy(g *networking.Gateway) (names []string) {
	for _, server := range g.Servers {
		t := server.GetTls()
		for _, name := range append([]string{t.GetCredentialName(), t.GetCaCertCredentialName()}, t.GetCredentialNames()...) {
			if name != "" && !strings.ContainsAny(name, "/:") {
				names = append(names, name, name+"-cacert")
			}
		}
	}
	return names
}

// carries says whether a Service's selector has all that a Gateway's asks for.
func carries(selector, asked map[string]string) bool {
	for k, v := range asked {
		if has, ok := selector[k]; !ok || has != v {
			return false
		}
	}
	return len(selector) > 0
}

// expectSecret notes that the first batch waits for a Secret.
func (s *store) expectSecret(key config.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[key] = false
}

// forgetSecret drops a Secret that nobody names any more.
func (s *store) forgetSecret(key config.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.secrets, key)
	s.drop(namedKind(key.Kind), key)
	s.notes.Set(key, nil)
	s.signal()
}

// secretResult notes how asking for a Secret went. What the server answered settles it, whatever it is.
func (s *store) secretResult(key config.Key, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, named := s.secrets[key]; !named {
		return
	}
	if err == nil || answered(err) {
		s.secrets[key] = true
	}
	if err == nil {
		s.notes.Set(key, nil)
	} else if answered(err) {
		f := admission.Finding{Severity: admission.Error, Key: key, Origin: origin, Message: "cannot be read: " + reason(err), Fix: "see the API server's log; this is tried again"}
		if apierrors.IsForbidden(err) {
			f.Message = fmt.Sprintf("an object names this %s, and the control plane may not read it", key.Kind)
			f.Fix = fmt.Sprintf("let the chart's value credentials.namespaces hold %s, or remove the name from the DestinationRule, Gateway, ListenerSet or BackendTLSPolicy that has it", key.Namespace)
		}
		s.notes.Set(key, []admission.Finding{f})
	}
	s.signal()
}

// secretsSettled says whether all Secrets that rules name were asked for. The caller holds the lock.
func (s *store) secretsSettled() bool {
	for _, seen := range s.secrets {
		if !seen {
			return false
		}
	}
	return true
}
