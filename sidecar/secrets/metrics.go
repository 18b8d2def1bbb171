package secrets

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	renewals     *prometheus.CounterVec
	saveFailures prometheus.Counter
	pushes       prometheus.Counter
	refusals     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, w *Workload) metrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sallyport_agent_certificate_expiry_timestamp_seconds",
		Help: "When the workload's certificate expires, in seconds since 1970; 0 before the first one.",
	}, func() float64 {
		if s := w.Status(); !s.Expires.IsZero() {
			return float64(s.Expires.Unix())
		}
		return 0
	})
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sallyport_agent_certificate_expired",
		Help: "1 when the workload's certificate has expired and could not be renewed.",
	}, func() float64 {
		if w.Status().Expired {
			return 1
		}
		return 0
	})
	return metrics{
		renewals: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_agent_certificate_requests_total",
			Help: "Requests for a certificate by result: success, failure.",
		}, []string{"result"}),
		saveFailures: factory.NewCounter(prometheus.CounterOpts{
			Name: "sallyport_agent_certificate_save_failures_total",
			Help: "Certificates that could not be stored in the state folder.",
		}),
		pushes: factory.NewCounter(prometheus.CounterOpts{
			Name: "sallyport_agent_sds_pushes_total",
			Help: "Responses with secrets sent to Envoy.",
		}),
		refusals: factory.NewCounter(prometheus.CounterOpts{
			Name: "sallyport_agent_sds_refusals_total",
			Help: "Secrets that Envoy refused (NACK).",
		}),
	}
}
