package controlplane

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/policy/matrix"
)

// listPolicies answers with the policies that are in force.
func (p *plane) listPolicies(w http.ResponseWriter, r *http.Request) {
	at, err := policy.ParseTime(r.URL.Query().Get("at"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if at.IsZero() {
		at = time.Now()
	}
	answer(w, matrix.List(p.snapshot.Load(), at))
}

// policyMatrix answers who can reach a host, or what a workload can reach.
func (p *plane) policyMatrix(w http.ResponseWriter, r *http.Request) {
	if ns := p.cfg.ForwardFor; ns != "" {
		http.Error(w, fmt.Sprintf("up acts for namespace %s, whoever asks: sallyport explain says what it lets out", ns), http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	asked, err := matrix.ParseQuestion(q.Get("host"), q.Get("from"), q.Get("account"), q.Get("at"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	port, _ := strconv.ParseUint(q.Get("port"), 10, 16)
	asked.Port = uint32(port)
	asked.Limit, _ = strconv.Atoi(q.Get("limit"))
	answer(w, asked.Answer(p.snapshot.Load(), p.known.workloads()))
}

// workloads are the objects that workloads are known by.
func (v *inventory) workloads() (out []*config.Object) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, o := range v.objects.All() {
		if matrix.Knows(o.Kind) {
			out = append(out, o)
		}
	}
	return out
}
