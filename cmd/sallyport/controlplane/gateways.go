package controlplane

import (
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/deploy"
	"github.com/sallyport/sallyport/sidecar/gateway"
)

// gatewayClass is the name of the GatewayClass that is made where it is missing.
const gatewayClass = "sallyport"

// gateways are what became of Gateways of the Gateway API in the cluster.
type gateways struct {
	mu     sync.Mutex
	states map[types.NamespacedName]deploy.State
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

// keepGateways makes what keeps the objects of Gateways; changed is told of each whose State is another one.
func (c *cluster) keepGateways(p *plane, changed func(types.NamespacedName)) (*deploy.Keeper, error) {
	data, err := os.ReadFile(c.GatewayConfigFile)
	if err != nil {
		return nil, WrongSetting{fmt.Errorf("--gateway-config: %w", err)}
	}
	settings, err := gateway.ParseSettings(data)
	if err != nil {
		return nil, WrongSetting{fmt.Errorf("--gateway-config %q: %w", c.GatewayConfigFile, err)}
	}
	return deploy.New(c.REST, deploy.Options{
		Logger: p.log, Controller: condition.Controller, Class: gatewayClass,
		Render: func(g *gatewayv1.Gateway, sets []*gatewayv1.ListenerSet) ([]deploy.Object, error) {
			var more []gateway.Port
			for _, s := range sets {
				for _, l := range s.Spec.Listeners {
					more = append(more, gateway.PortOf(l.Port, l.Protocol))
				}
			}
			o, err := gateway.Render(g, more, settings)
			return []deploy.Object{o.ServiceAccount, o.Deployment, o.Service}, err
		},
		Changed: func(key types.NamespacedName, s *deploy.State) {
			c.gateways.set(key, s)
			changed(key)
		},
	})
}
