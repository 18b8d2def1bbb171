package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What became of a call.
const (
	resultAllowed   = "allowed"
	resultRefused   = "refused"
	resultMalformed = "malformed" // no review
)

type metrics struct {
	calls *prometheus.HistogramVec
}

func newMetrics(to prometheus.Registerer) *metrics {
	m := &metrics{calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sallyport_validation_seconds", Help: "Calls of the validating webhook by what became of the object.",
		Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
	}, []string{"result"})}
	for _, result := range []string{resultAllowed, resultRefused, resultMalformed} {
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
