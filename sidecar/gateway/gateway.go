package gateway

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/sidecar/gateway/overlay"
)

// ServiceTypeAnnotation of a Gateway is Istio's word for the type of its Service.
const ServiceTypeAnnotation = "networking.istio.io/service-type"

func speaksHTTP3(of *gatewayv1.Gateway) bool {
	return of.Annotations[gatewayapi.HTTP3Annotation] == "true"
}

// classLabel is beside the standard's label of a Gateway's name.
const classLabel = "gateway.networking.k8s.io/gateway-class-name"

// Objects are those of one Gateway.
type Objects struct {
	ServiceAccount *corev1.ServiceAccount
	Deployment     *appsv1.Deployment
	Service        *corev1.Service
	Autoscaler     *autoscalingv2.HorizontalPodAutoscaler // nil without parameters that speak of one
	Budget         *policyv1.PodDisruptionBudget          // nil without such
}

// As is what a Gateway's pods are.
type As string

// The kinds; what the agent calls them.
const (
	Router   As = "router"
	Waypoint As = "waypoint" // it stands before Services of the mesh, and nobody outside comes to it
)

// Render gives the objects of a Gateway; more are the ports of ListenerSets that are attached to it, and parameters those of its class and its
// own, in this order. The error says in the user's terms what of the Gateway cannot be deployed; it is an overlay.Error where these are at fault.
func Render(of *gatewayv1.Gateway, as As, more []Port, s Settings, parameters ...*overlay.Set) (Objects, error) {
	if problems := validation.IsValidLabelValue(of.Name); len(problems) > 0 {
		return Objects{}, fmt.Errorf("metadata.name: %q: pods are labelled with it, so it has at most 63 characters: give the Gateway a shorter name", of.Name)
	}
	kind := s.ServiceType
	if as == Waypoint {
		kind = corev1.ServiceTypeClusterIP
	}
	if value, says := of.Annotations[ServiceTypeAnnotation]; says {
		if kind = corev1.ServiceType(value); !serviceTypes[kind] {
			return Objects{}, fmt.Errorf("metadata.annotations[%q]: %q: write LoadBalancer, NodePort or ClusterIP", ServiceTypeAnnotation, value)
		}
	}
	if value, says := of.Annotations[gatewayapi.HTTP3Annotation]; says && value != "true" && value != "false" {
		return Objects{}, fmt.Errorf("metadata.annotations[%q]: %q: write \"true\" or \"false\"", gatewayapi.HTTP3Annotation, value)
	}
	g := made{Gateway: of, as: as, settings: s, name: gatewayapi.ObjectsName(of.Name, of.Spec.GatewayClassName), ports: ports(of, as, more)}
	o := Objects{ServiceAccount: g.account(), Deployment: g.deployment(), Service: g.service(serviceType(kind, parameters))}
	if err := g.parametrize(&o, takesDatagrams(of, more), parameters); err != nil {
		return Objects{}, err
	}
	return o, nil
}

// made is a Gateway whose objects are made.
type made struct {
	*gatewayv1.Gateway
	as       As
	settings Settings
	name     string
	ports    []Port
}

// meta is the metadata of an object of the Gateway.
func (g made) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: g.name, Namespace: g.Namespace, Labels: g.labels(), Annotations: g.annotations(),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: g.Gateway.Name, UID: g.UID, Controller: new(true),
		}},
	}
}

// selector are the labels by which Deployment and Service find the pods, and Gateways their proxies.
func (g made) selector() map[string]string {
	return map[string]string{gatewayv1.GatewayNameLabelKey: g.Gateway.Name}
}

// labels are those of every object and pod.
func (g made) labels() map[string]string {
	out := map[string]string{}
	if i := g.Spec.Infrastructure; i != nil {
		for k, v := range i.Labels {
			out[string(k)] = string(v)
		}
	}
	maps.Copy(out, g.selector())
	out[classLabel] = string(g.Spec.GatewayClassName)
	out["app.kubernetes.io/managed-by"] = "sallyport"
	return out
}

func (g made) annotations() map[string]string {
	out := map[string]string{}
	if i := g.Spec.Infrastructure; i != nil {
		for k, v := range i.Annotations {
			out[string(k)] = string(v)
		}
	}
	return out
}

// account is who the proxies are.
func (g made) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: g.meta(), AutomountServiceAccountToken: new(false),
	}
}
