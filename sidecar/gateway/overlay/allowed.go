package overlay

import (
	"fmt"

	"github.com/sallyport/sallyport/sidecar/inject"
)

// metadata are labels and annotations.
var metadata = fields(map[string]rule{"labels": names, "annotations": names})

// object is one of this kind, which may be written, with fields.
func object(apiVersion, kind string, of map[string]rule) rule {
	of["apiVersion"], of["kind"] = word(apiVersion), word(kind)
	return fields(of)
}

// allowed is all that parameters set.
var allowed = map[Key]rule{
	Deployment: object("apps/v1", "Deployment", map[string]rule{
		"metadata": metadata,
		"spec": fields(map[string]rule{
			"replicas": whole, "strategy": whole,
			"template": fields(map[string]rule{
				"metadata": metadata,
				"spec": fields(map[string]rule{
					"containers":   items(container),
					"nodeSelector": whole, "affinity": whole, "tolerations": whole, "topologySpreadConstraints": whole,
					"priorityClassName": whole, "terminationGracePeriodSeconds": whole,
				}),
			}),
		}),
	}),
	Service: object("v1", "Service", map[string]rule{
		"metadata": metadata,
		"spec": fields(map[string]rule{
			"type":                  word("LoadBalancer", "NodePort", "ClusterIP"),
			"externalTrafficPolicy": whole, "internalTrafficPolicy": whole, "loadBalancerClass": whole, "loadBalancerSourceRanges": whole,
			"ipFamilies": whole, "ipFamilyPolicy": whole, "sessionAffinity": whole, "sessionAffinityConfig": whole,
			"ports": items(port),
		}),
	}),
	// Annotations of accounts are how clouds give identities.
	ServiceAccount: object("v1", "ServiceAccount", map[string]rule{"metadata": fields(map[string]rule{"labels": names})}),
	Autoscaler: object("autoscaling/v2", "HorizontalPodAutoscaler", map[string]rule{
		"metadata": metadata,
		"spec":     fields(map[string]rule{"minReplicas": whole, "maxReplicas": whole, "metrics": whole, "behavior": whole}),
	}),
	Budget: object("policy/v1", "PodDisruptionBudget", map[string]rule{
		"metadata": metadata,
		"spec":     fields(map[string]rule{"minAvailable": whole, "maxUnavailable": whole, "unhealthyPodEvictionPolicy": whole}),
	}),
}

// container is the proxy, of which others say what it may use; there is no other.
func container(at string, value any) error {
	c, is := value.(map[string]any)
	if !is || c["name"] != inject.ProxyName {
		return refuse(at, value, fmt.Sprintf("a gateway's pods have one container, and parameters add none: write what is about {name: %s}", inject.ProxyName))
	}
	return proxy(at, value)
}

var proxy = fields(map[string]rule{
	"name":      whole,
	"resources": fields(map[string]rule{"limits": whole, "requests": whole}),
})

// readyPort is the Service's port that is no listener's, and that may be left out: Istio's documentation shows how.
const readyPort = float64(inject.ReadyPort)

// port is one that the Service has.
func port(at string, value any) error {
	if p, is := value.(map[string]any); is && p["$patch"] != nil && p["port"] != readyPort {
		return refuse(at+".$patch", p["$patch"], fmt.Sprintf("a listener's port is its Gateway's to close: remove it; of port %d write delete", inject.ReadyPort))
	}
	return servicePort(at, value)
}

var servicePort = fields(map[string]rule{
	"port": whole, "protocol": word("TCP", "UDP"), "nodePort": whole, "$patch": word("delete"),
})
