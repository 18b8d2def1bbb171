package check

import (
	"fmt"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// controller judges the replicas of the controller.
func (s *survey) controller() {
	of := key("Deployment", s.System, "sallyport")
	if s.Controller == nil {
		s.add(admission.Error, of, "", "", fmt.Sprintf("there is no control plane: namespace %s has no Deployment sallyport, with pods of the label app=sallyport", s.System),
			"name its namespace with --system-namespace, or install the chart")
		return
	}
	switch ready := s.Controller.Status.ReadyReplicas; ready {
	case 0:
		s.add(admission.Error, of, "status.readyReplicas", "0", "no controller is ready: labelled pods are not created, proxies learn of no change, and certificates are not renewed",
			"see kubectl -n "+s.System+" describe pods -l app=sallyport")
	case 1:
		s.add(admission.Warning, of, "status.readyReplicas", "1", "one controller alone is ready: while it restarts, labelled pods are not created", "run two or more (controller.replicas in the chart's values)")
	}
}

// audit judges the server that keeps the records.
func (s *survey) audit() {
	if s.Audit != nil && s.Audit.Status.ReadyReplicas == 0 {
		s.add(admission.Error, key("StatefulSet", s.System, s.Audit.Name), "status.readyReplicas", "0",
			"the audit server is not ready: records wait on the proxies' disks, and the oldest are lost when these are full", "see kubectl -n "+s.System+" describe pods -l app=sallyport-audit")
	}
}

// gateway judges whether the mesh's way out leads anywhere.
func (s *survey) gateway() {
	at := s.Mesh.DefaultGateway
	if at.IsDirect() {
		return
	}
	of := key("Service", at.Namespace, at.Name)
	if s.Gateway == nil {
		s.add(admission.Error, of, "", "", "it is the mesh's default gateway, and there is no such Service: no registered host can be reached",
			`install the chart's egress gateway, or name another in the mesh's settings (sallyport.defaultGateway, "direct" for none)`)
		return
	}
	ready := 0
	for _, slice := range s.Endpoints {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready++
			}
		}
	}
	switch ready {
	case 0:
		s.add(admission.Error, of, "", "", "the gateway has no ready endpoint: no registered host can be reached", "see kubectl -n "+at.Namespace+" describe pods -l app="+at.Name)
	case 1:
		s.add(admission.Warning, of, "", "", "the gateway has one ready endpoint alone: nothing leaves while it restarts", "run two or more (egressGateway.autoscaling.minReplicas in the chart's values)")
	}
}

// policies is the resource of our own kind.
const policies = "egresspolicies"

// kinds judges whether the API server knows the objects that configure the mesh.
func (s *survey) kinds() {
	for _, resource := range []string{"serviceentries", "destinationrules", "gateways", "sidecars", "virtualservices", policies} {
		if s.Kinds[resource] {
			continue
		}
		group := "networking.istio.io"
		if resource == policies {
			group = v1alpha1.Group
		}
		severity := admission.Warning
		if resource == "serviceentries" {
			severity = admission.Error
		}
		s.add(severity, key("CustomResourceDefinition", "", resource+"."+group), "", "", "it is missing: there can be no objects of this kind", "apply the chart's CRDs: helm show crds")
	}
}
