package controlplane

import "github.com/prometheus/client_golang/prometheus"

// remoteClusters counts of each other cluster whether it was read: 1, or 0 for one that is away or whose kubeconfig is of no use.
func remoteClusters(metrics *prometheus.Registry) func(cluster string, read bool) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sallyport_remote_cluster_read", Help: "Whether what counts of another cluster was read, by its name: 1, or 0.",
	}, []string{"cluster"})
	metrics.MustRegister(gauge)
	return func(cluster string, read bool) {
		value := 0.0
		if read {
			value = 1
		}
		gauge.WithLabelValues(cluster).Set(value)
	}
}
