package controlplane

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/deploy"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	gatewaystatus "github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/sidecar/gateway"
	"github.com/sallyport/sallyport/sidecar/gateway/overlay"
)

// gatewayClasses are the names of the GatewayClasses that are made where they are missing.
func gatewayClasses() []string {
	out := []string{gatewayapi.DefaultClass, string(gatewayapi.EgressClass)}
	for _, c := range gatewayapi.WaypointClasses {
		out = append(out, string(c))
	}
	return out
}

// gateways are what became of Gateways of the Gateway API in the cluster.
type gateways struct {
	mu      sync.Mutex
	states  map[types.NamespacedName]deploy.State
	classes map[string]string // what is wrong with the parameters of GatewayClasses
}

// set notes a State; nil for none.
func (g *gateways) set(key types.NamespacedName, s *deploy.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s == nil {
		delete(g.states, key)
		return
	}
	if g.states == nil {
		g.states = map[types.NamespacedName]deploy.State{}
	}
	g.states[key] = *s
}

// get gives a State, and whether one is known.
func (g *gateways) get(key types.NamespacedName) (deploy.State, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, known := g.states[key]
	return s, known
}

// setClass notes what is wrong with a class's parameters; "" for nothing.
func (g *gateways) setClass(name, problem string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.classes == nil {
		g.classes = map[string]string{}
	}
	g.classes[name] = problem
}

// class gives what is wrong with a class's parameters; "" for nothing.
func (g *gateways) class(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.classes[name]
}

// standard is the status of an object of the Gateway API, with what became of it in the cluster; nil where it is not ours to say.
func (p *plane) standard(s *registry.Snapshot, key config.Key) any {
	if told, ours := gatewaystatus.Class(s, key); ours {
		if c := p.cluster; c != nil && c.deployed != nil {
			refuse(told.Conditions, c.gateways.class(key.Name))
		} else if s.World().Object(key).Spec.(*gatewayv1.GatewayClassSpec).ParametersRef != nil {
			refuse(told.Conditions, "parametersRef: "+nothingDeployed)
		}
		return told
	}
	if told, is := gatewaystatus.Route(s, key); is {
		return told
	}
	if told, is := gatewaystatus.BackendTLS(s, key); is {
		return told
	}
	if told, is := gatewaystatus.ListenerSet(s, key); is {
		return told
	}
	told, ours := gatewaystatus.Gateway(s, key)
	if !ours {
		return nil
	}
	spec := s.World().Object(key).Spec.(*gatewayv1.GatewaySpec)
	if gatewayapi.IsEgress(spec.GatewayClassName) {
		return told // for which nothing is deployed
	}
	asked := gatewayapi.Addresses(spec)
	if c := p.cluster; c != nil && c.deployed != nil {
		state, _ := c.gateways.get(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		place(&told, state, asked)
	} else {
		unplaced(&told, asked)
		if spec.Infrastructure != nil && spec.Infrastructure.ParametersRef != nil {
			refuse(told.Conditions, "infrastructure.parametersRef: "+nothingDeployed)
		}
	}
	return told
}

const nothingDeployed = "nothing is deployed for Gateways here, so nothing has parameters: remove it"

// unplaced says in a Gateway's status that nobody is asked for its addresses, where nothing is deployed for Gateways.
func unplaced(told *gatewayv1.GatewayStatus, asked []string) {
	if p := programmed(told); p != nil && len(asked) > 0 {
		p.Status, p.Reason = metav1.ConditionFalse, string(gatewayv1.GatewayReasonAddressNotUsable)
		p.Message = "addresses: nothing is deployed for Gateways here, so no load balancer is asked for " + asked[0] + ": remove it, and give your own Service the address"
	}
}

// programmed is the condition of a Gateway's status by that name, where it is true as far as what is written goes; nil where it is not.
func programmed(told *gatewayv1.GatewayStatus) *metav1.Condition {
	i := slices.IndexFunc(told.Conditions, func(c metav1.Condition) bool { return c.Type == string(gatewayv1.GatewayConditionProgrammed) })
	if i < 0 || told.Conditions[i].Status != metav1.ConditionTrue {
		return nil
	}
	return &told.Conditions[i]
}

// refuse writes into conditions that what they are of is not accepted, because of its parameters; "" for nothing that is wrong with these.
func refuse(conditions []metav1.Condition, problem string) {
	if problem == "" {
		return
	}
	for i := range conditions {
		if c := &conditions[i]; c.Type == string(gatewayv1.GatewayConditionAccepted) && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonInvalidParameters), problem
		}
	}
}

// place writes into a Gateway's status what became of it in the cluster, where it asks for addresses.
func place(told *gatewayv1.GatewayStatus, state deploy.State, asked []string) {
	told.Addresses = state.Addresses
	if state.BadParameters {
		refuse(told.Conditions, state.Problem)
	}
	programmed := programmed(told)
	switch {
	case programmed == nil:
	case state.BadParameters:
		programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonInvalid), state.Problem
	case state.Problem != "":
		programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonNoResources), state.Problem
	case missing(state.Addresses, asked) != "":
		programmed.Status, programmed.Reason = metav1.ConditionFalse, string(gatewayv1.GatewayReasonAddressNotUsable)
		programmed.Message = "addresses: its Service does not have " + missing(state.Addresses, asked) + ": ask for one address that the load balancer gives; a Service of type ClusterIP or NodePort asks for none"
	case len(state.Addresses) == 0:
		programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonAddressNotAssigned), "its Service has no address yet"
	}
}

// missing is the first address that is asked for and not there; "" for none.
func missing(there []gatewayv1.GatewayStatusAddress, asked []string) string {
	for _, text := range asked {
		want, err := netip.ParseAddr(text)
		if err != nil || !slices.ContainsFunc(there, func(a gatewayv1.GatewayStatusAddress) bool {
			has, err := netip.ParseAddr(a.Value)
			return err == nil && has == want
		}) {
			return text
		}
	}
	return ""
}

// replaced tells the status of a Gateway again, since it is deployed otherwise than before, or of a class.
func (p *plane) replaced(key config.Key) {
	p.updateStatuses(func() map[config.Key]status.Details {
		told := p.standard(p.snapshot.Load(), key)
		if told == nil {
			return nil
		}
		return map[config.Key]status.Details{key: {Standard: told}}
	})
}

// keepGateways makes what keeps the objects of Gateways.
func (c *cluster) keepGateways(p *plane) (*deploy.Keeper, error) {
	data, err := os.ReadFile(c.GatewayConfigFile)
	if err != nil {
		return nil, WrongSetting{fmt.Errorf("--gateway-config: %w", err)}
	}
	settings, err := gateway.ParseSettings(data)
	if err != nil {
		return nil, WrongSetting{fmt.Errorf("--gateway-config %q: %w", c.GatewayConfigFile, err)}
	}
	return deploy.New(c.REST, deploy.Options{
		Logger: p.log, Controller: condition.Controller, Classes: gatewayClasses(), Namespace: c.Namespace, ClassDefaults: c.GatewayClassDefaults,
		Render: func(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet, parameters []deploy.Parameters) ([]deploy.Object, error) {
			if gatewayapi.IsEgress(g.Spec.GatewayClassName) {
				return nil, nil // it stands for an egress gateway that is there
			}
			return objects(g, sets, settings, parameters)
		},
		Check: func(parameters deploy.Parameters) error {
			_, err := overlay.Read(parameters.Namespace, parameters.Name, parameters.Data)
			return err
		},
		Changed: func(key types.NamespacedName, s *deploy.State) {
			c.gateways.set(key, s)
			p.replaced(config.Key{Kind: config.KindKubeGateway, Namespace: key.Namespace, Name: key.Name})
		},
		ClassChanged: func(class, problem string) {
			c.gateways.setClass(class, problem)
			p.replaced(config.Key{Kind: config.KindGatewayClass, Name: class})
		},
	})
}

// objects are those of a Gateway with what parameters make of them.
func objects(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet, settings gateway.Settings, parameters []deploy.Parameters) ([]deploy.Object, error) {
	o, err := renderWith(g, sets, settings, parameters)
	if errors.As(err, new(overlay.Error)) {
		return nil, deploy.BadParameters{Why: err}
	}
	if err != nil {
		return nil, err
	}
	out := []deploy.Object{o.ServiceAccount, o.Deployment, o.Service}
	if o.Autoscaler != nil {
		out = append(out, o.Autoscaler)
	}
	if o.Budget != nil {
		out = append(out, o.Budget)
	}
	return out, nil
}

func renderWith(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet, settings gateway.Settings, parameters []deploy.Parameters) (gateway.Objects, error) {
	var overlays []*overlay.Set
	for _, p := range parameters {
		read, err := overlay.Read(p.Namespace, p.Name, p.Data)
		if err != nil {
			return gateway.Objects{}, err
		}
		overlays = append(overlays, read)
	}
	return render(g, sets, settings, overlays...)
}

// render gives the objects of a Gateway with the ListenerSets that are attached to it. Nothing is made of one that is not accepted: nobody is
// asked for its addresses.
func render(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet, settings gateway.Settings, parameters ...*overlay.Set) (gateway.Objects, error) {
	if p := gatewayapi.Unacceptable(&g.Spec); p.Is() {
		return gateway.Objects{}, errors.New("spec." + p.Message)
	}
	var more []gateway.Port
	for _, s := range sets {
		for _, l := range s.Spec.Listeners {
			more = append(more, gateway.PortOf(l.Port, l.Protocol))
		}
	}
	as := gateway.Router
	if gatewayapi.IsWaypoint(g.Spec.GatewayClassName) {
		as = gateway.Waypoint
	} else {
		text, field := gatewayapi.ProxyConfig(g.Annotations, &g.Spec)
		topology, err := mesh.OnlyTopology(text)
		if err != nil {
			return gateway.Objects{}, fmt.Errorf("%s: %w", field, err)
		}
		settings.ProxyConfig = topology
	}
	return gateway.Render(g, as, more, settings, parameters...)
}
