package inject

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workload is what a pod belongs to, as far as the pod tells.
type workload struct {
	name  string // "" when the pod has no name either
	owner string // Istio's form: kubernetes://apis/apps/v1/namespaces/NS/deployments/NAME
}

// cronRun ends the name of a Job that a CronJob made: the minute of its schedule.
var cronRun = regexp.MustCompile(`-\d{8,10}$`)

// workloadOf follows a pod's controller: through a ReplicaSet to the Deployment, through a Job to the CronJob, by how
// Kubernetes names them.
func workloadOf(pod *corev1.Pod, namespace string) workload {
	name, kind, version := pod.Name, "Pod", "v1"
	if name == "" {
		name = strings.TrimSuffix(pod.GenerateName, "-")
	}
	if by := metav1.GetControllerOfNoCopy(pod); by != nil {
		name, kind, version = by.Name, by.Kind, by.APIVersion
		hash := pod.Labels["pod-template-hash"]
		switch base, fromHash := strings.CutSuffix(name, "-"+hash); {
		case kind == "ReplicaSet" && hash != "" && fromHash:
			name, kind = base, "Deployment"
		case kind == "Job" && cronRun.MatchString(name):
			name, kind = cronRun.ReplaceAllString(name, ""), "CronJob"
		}
	}
	if name == "" {
		return workload{}
	}
	return workload{name: name, owner: fmt.Sprintf("kubernetes://apis/%s/namespaces/%s/%ss/%s", version, namespace, strings.ToLower(kind), name)}
}
