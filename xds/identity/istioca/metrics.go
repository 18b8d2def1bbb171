package istioca

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	issued   prometheus.Counter
	failures *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, signer Signer) metrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sallyport_ca_expiry_timestamp_seconds",
		Help: "When the first certificate of the mesh CA's chain expires, in seconds since 1970.",
	}, func() float64 { return float64(signer.Expires().Unix()) })
	return metrics{
		issued: factory.NewCounter(prometheus.CounterOpts{
			Name: "sallyport_ca_certificates_issued_total",
			Help: "Workload certificates that the mesh CA signed.",
		}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_ca_requests_failed_total",
			Help: "Certificate requests that got no certificate, by gRPC code.",
		}, []string{"code"}),
	}
}
