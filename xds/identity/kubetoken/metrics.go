package kubetoken

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	answered *prometheus.CounterVec
	reviews  *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) metrics {
	factory := promauto.With(reg)
	return metrics{
		answered: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_tokens_total",
			Help: "Service account tokens presented, by what their answer came from: cache, review, unasked (no token of ours by its own words).",
		}, []string{"from"}),
		reviews: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_token_reviews_total",
			Help: "Token reviews asked of the Kubernetes API, by result: accepted, rejected, failed (no answer).",
		}, []string{"result"}),
		duration: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "sallyport_token_review_duration_seconds",
			Help:    "How long the Kubernetes API took to review a token.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
}
