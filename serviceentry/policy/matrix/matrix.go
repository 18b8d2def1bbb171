package matrix

import (
	"time"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// Matrix is an answer: cells in order, and how many are left out of it.
type Matrix struct {
	Cells   []Cell `json:"cells"`
	LeftOut int    `json:"leftOut"`
}

// WhoCan says who can reach a host, at a port or at all that are registered for it (0), in at most limit cells.
func WhoCan(s *registry.Snapshot, subjects []Subject, host string, port uint32, at time.Time, limit int) Matrix {
	m := Matrix{Cells: []Cell{}}
	targets := targetsFor(s, host, port)
	for _, subject := range subjects {
		for _, t := range targets {
			m.add(s, subject, t, at, limit)
		}
	}
	return m
}

// WhatCan says which of the hosts outside the mesh that are registered, and visible to a workload, it can reach, in at most limit cells.
func WhatCan(s *registry.Snapshot, w policy.Workload, at time.Time, limit int) Matrix {
	m := Matrix{Cells: []Cell{}}
	s = s.Quick() // each host is asked about, several times
	subject := Subject{Namespace: w.Namespace, Account: w.Account, Labels: w.Labels, Workloads: []string{w.Name}}
	sidecar := resolve.Workload(s, w.Namespace, w.Labels)
	for host := range s.Hosts() {
		svc := sidecar.Visible(host)
		if svc == nil || !svc.External {
			continue
		}
		for _, t := range targetsOf(svc) {
			m.add(s, subject, t, at, limit)
		}
	}
	return m
}

func (m *Matrix) add(s *registry.Snapshot, subject Subject, t target, at time.Time, limit int) {
	if len(m.Cells) == limit {
		m.LeftOut++
		return
	}
	m.Cells = append(m.Cells, decide(s, subject, t, at))
}
