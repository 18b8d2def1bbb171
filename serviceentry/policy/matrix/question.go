package matrix

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Question is what is asked: who can reach Host, or what From can reach.
type Question struct {
	Host  string // "" asks about From
	Port  uint32 // 0: all that are registered
	From  policy.Workload
	At    time.Time
	Limit int // cells
}

// ParseQuestion reads one: of a host, or of a workload.
func ParseQuestion(name, from, account, at string) (q Question, err error) {
	if q.At, err = policy.ParseTime(at); err != nil {
		return q, err
	}
	if name == "" {
		q.From, err = policy.ParseWorkload(from)
		q.From.Account = account
		return q, err
	}
	h, err := host.Parse(name)
	q.Host = string(h)
	return q, err
}

// Answer answers it. The objects say which workloads there are.
func (q Question) Answer(s *registry.Snapshot, objects []*config.Object) Matrix {
	if q.Host != "" {
		return WhoCan(s, Subjects(s, objects), q.Host, q.Port, q.At, q.Limit)
	}
	return WhatCan(s, Known(q.From, objects), q.At, q.Limit)
}

// Knows says whether workloads are known by objects of a kind.
func Knows(k config.Kind) bool {
	return slices.Contains([]config.Kind{config.KindPod, config.KindWorkloadEntry, config.KindSidecar}, k)
}
