package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sallyport/sallyport/cmd/sallyport/check"
	"github.com/sallyport/sallyport/cmd/sallyport/forward"
)

// readServed asks the agents of the nodes on which pods are to be served without sidecars.
func (a *clusterAccess) readServed(ctx context.Context, o *check.Objects) error {
	o.Served = map[string][]check.Served{}
	nodes := map[string]bool{}
	for _, pod := range o.WantsAmbient() {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) == 0 {
		return nil
	}
	agents, _, err := forward.Ready(ctx, a.client.CoreV1(), a.system, check.AmbientLabel)
	var none *forward.NoneError
	if errors.As(err, &none) {
		return nil // which is found to be wrong of each pod
	}
	if err != nil {
		return a.noAccess(err)
	}
	var failed []error
	for _, agent := range agents {
		if nodes[agent.Spec.NodeName] {
			served, err := a.servedBy(ctx, agent.Name)
			if err != nil {
				failed = append(failed, fmt.Errorf("the agent of node %s: %w", agent.Spec.NodeName, a.noAccess(err)))
				continue
			}
			o.Served[agent.Spec.NodeName] = served
		}
	}
	return errors.Join(failed...)
}

func (a *clusterAccess) servedBy(ctx context.Context, pod string) (served []check.Served, err error) {
	agent, err := a.reach(ctx, pod, agentPort)
	if err != nil {
		return nil, err
	}
	defer closeAll([]replica{agent})
	body, err := agent.ask(ctx, "/debug/pods", nil)
	if err != nil {
		return nil, err
	}
	return served, json.Unmarshal(body, &served)
}
