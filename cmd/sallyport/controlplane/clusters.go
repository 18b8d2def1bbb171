package controlplane

import "github.com/prometheus/client_golang/prometheus"

var remoteClusterRead = prometheus.NewDesc("sallyport_remote_cluster_read",
	"Whether another cluster is read, by its name: 1, or 0 for one that is away, or refuses its credentials, or whose kubeconfig is of no use; what was read of it before stays.", []string{"cluster"}, nil)

// remoteClusters tells who asks for metrics of each other cluster whether it is read now.
type remoteClusters func() map[string]bool

// Describe says what is told.
func (remoteClusters) Describe(out chan<- *prometheus.Desc) { out <- remoteClusterRead }

// Collect tells it.
func (reading remoteClusters) Collect(out chan<- prometheus.Metric) {
	for cluster, is := range reading() {
		value := 0.0
		if is {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(remoteClusterRead, prometheus.GaugeValue, value, cluster)
	}
}
