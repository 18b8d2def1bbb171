package story

import (
	"context"
	"fmt"
)

// agentMemory bounds the resident memory of an agent at rest, in bytes: there is one in every pod.
const agentMemory = 30 << 20

// smallAgent measures the agents, while nothing happens.
func smallAgent(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	for _, pod := range []*Pod{s.App, s.Gateway} {
		resident, err := pod.agent.Resident()
		if err != nil {
			return err
		}
		if resident > agentMemory {
			return fmt.Errorf("the agent of %s holds %.1f MiB, want at most %d", pod.name, mib(resident), agentMemory>>20)
		}
		s.show("agent of %s: %.1f MiB", pod.name, mib(resident))
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
