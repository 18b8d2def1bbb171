package gatewayapi

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// SetParent is the Gateway that a ListenerSet adds listeners to; false where its parent is something else.
func SetParent(o *config.Object) (config.Key, bool) {
	p := o.Spec.(*gatewayv1.ListenerSetSpec).ParentRef
	if or(p.Group, gatewayv1.GroupName) != gatewayv1.GroupName || or(p.Kind, "Gateway") != "Gateway" {
		return config.Key{}, false
	}
	return config.Key{Kind: config.KindKubeGateway, Namespace: string(or(p.Namespace, gatewayv1.Namespace(o.Namespace))), Name: string(p.Name)}, true
}

// SetGateway is that Gateway, and why the set's listeners are not its; nil where it is not ours.
func SetGateway(w World, o *config.Object) (*config.Object, Problem) {
	key, of := SetParent(o)
	if !of {
		return nil, Problem{}
	}
	g := gateway(w, key.Namespace, key.Name)
	if g == nil {
		return nil, Problem{}
	}
	spec := g.Spec.(*gatewayv1.GatewaySpec)
	switch {
	case !letsIn(w, spec, g.Namespace, o.Namespace):
		return g, Problem{string(gatewayv1.ListenerSetReasonNotAllowed), "parentRef: the Gateway's allowedListeners let no ListenerSets of namespace " + o.Namespace + " in"}
	case Unacceptable(spec).Is():
		return g, Problem{string(gatewayv1.ListenerSetReasonParentNotAccepted), "parentRef: the Gateway is not accepted"}
	}
	return g, Problem{}
}

// letsIn says whether a Gateway lets ListenerSets of a namespace in. Without a word it lets none in.
func letsIn(w World, spec *gatewayv1.GatewaySpec, own, ns string) bool {
	if spec.AllowedListeners == nil || spec.AllowedListeners.Namespaces == nil {
		return false
	}
	from := spec.AllowedListeners.Namespaces
	return let(w, or(from.From, gatewayv1.NamespacesFromNone), from.Selector, own, ns)
}

// let says whether a namespace is one of those from which something may come.
func let(w World, from gatewayv1.FromNamespaces, by *metav1.LabelSelector, own, ns string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(by)
		return err == nil && by != nil && selector.Matches(labels.Set(w.NamespaceLabels(ns)))
	case gatewayv1.NamespacesFromSame:
		return own == ns
	default:
		return false
	}
}

// yield notes that an earlier listener has what this one wants. The Gateway's own have it, also where they are closed for what is wrong
// with them.
func (l *Listener) yield(earlier *Listener) {
	switch {
	case l.Conflict.Is() || !l.beside(earlier) || earlier.Set.Name != "" && earlier.Conflict.Is() || earlier.Unaccepted.Reason == string(gatewayv1.ListenerReasonUnsupportedProtocol):
	case l.family() != earlier.family():
		l.Conflict = Problem{string(gatewayv1.ListenerReasonProtocolConflict), "port: another listener of the Gateway speaks another protocol there"}
	case l.Host == earlier.Host:
		l.Conflict = Problem{string(gatewayv1.ListenerReasonHostnameConflict), "hostname: another listener of the Gateway has it at this port"}
	case l.Ref == earlier.Ref:
		l.Conflict = Problem{string(gatewayv1.ListenerReasonHostnameConflict), "name: another listener of the ListenerSet is called the same"}
	case earlier.Set.Name != "" && earlier.Set.Namespace != l.Set.Namespace && earlier.covers(l.Host):
		l.Conflict = Problem{string(gatewayv1.ListenerReasonHostnameConflict), "hostname: a ListenerSet of another namespace has a pattern that covers it at this port"}
	}
}

// covers says whether the listener's host is a pattern with a host within it. One for all hosts is nobody's alone.
func (l *Listener) covers(host string) bool {
	tail, pattern := strings.CutPrefix(l.Host, "*.")
	return pattern && strings.HasSuffix(host, "."+tail)
}

// Older puts objects in order of precedence: the oldest first, then by namespace and name.
func Older(x, y *config.Object) int {
	return cmp.Or(x.Created.Compare(y.Created), x.Key.Compare(y.Key))
}

// SetOf is the ListenerSet of a listener, by its ref; false where it is the Gateway's own.
func SetOf(ref string) (config.Key, bool) {
	_, listener, _ := ParseRef(ref)
	parts := strings.Split(listener, "/")
	if len(parts) != 3 {
		return config.Key{}, false
	}
	return config.Key{Kind: config.KindListenerSet, Namespace: parts[0], Name: parts[1]}, true
}
