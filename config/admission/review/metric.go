package review

import "github.com/prometheus/client_golang/prometheus"

// Malformed is the result of a call that holds no review.
const Malformed = "malformed"

// Metric is a histogram of the calls' durations in seconds, with the label "result".
type Metric struct {
	Name, Help string
	Results    []string // all that Answer may give; each is shown from the start, as Malformed is
}

func (m Metric) register(to prometheus.Registerer) *prometheus.HistogramVec {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.Name, Help: m.Help, Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
	}, []string{"result"})
	calls.WithLabelValues(Malformed)
	for _, result := range m.Results {
		calls.WithLabelValues(result)
	}
	if to != nil {
		to.MustRegister(calls)
	}
	return calls
}
