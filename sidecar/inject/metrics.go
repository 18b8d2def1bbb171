package inject

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What became of a call.
const (
	resultInjected  = "injected"
	resultSkipped   = "skipped"   // the pod is not to have a proxy, or has it
	resultRefused   = "refused"   // the pod's mistake
	resultFailed    = "failed"    // ours
	resultMalformed = "malformed" // no review
	resultOther     = "other"     // no creation of a pod
)

type metrics struct {
	calls *prometheus.HistogramVec
}

func newMetrics(to prometheus.Registerer) *metrics {
	m := &metrics{calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sallyport_injection_seconds", Help: "Calls of the injection webhook by what became of the pod.",
		Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
	}, []string{"result"})}
	for _, result := range []string{resultInjected, resultSkipped, resultRefused, resultFailed, resultMalformed, resultOther} {
		m.calls.WithLabelValues(result)
	}
	if to != nil {
		to.MustRegister(m.calls)
	}
	return m
}

func (m *metrics) count(result string, began time.Time) {
	m.calls.WithLabelValues(result).Observe(time.Since(began).Seconds())
}
