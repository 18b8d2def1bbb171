// Package inpod runs a program in a pod's network, beside its containers, and gives what it printed.
//
// In: a client, a pod, and what to run as whom. Out: the program's standard output. It is an ephemeral container
// (https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/) without any capability unless it is root: what
// it sends is sent as the app's would be. Such a container cannot be removed: it stays in the pod's description, ended,
// until the pod goes. The rights that it takes are "patch" on pods/ephemeralcontainers, and "get" on pods and pods/log.
//
// The package must not import anything else of this module.
package inpod

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// look is how often it is looked whether the program has ended.
const look = 500 * time.Millisecond

// Program is what to run.
type Program struct {
	Name  string // what the container's name begins with
	Image string // its entry point is the program
	Args  []string
	User  int64
}

// Run runs the program in the pod, until it has ended or ctx is over. How it ended is not an error.
func Run(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, p Program) ([]byte, error) {
	c := container(p)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": []corev1.EphemeralContainer{c}}})
	if err != nil {
		return nil, err
	}
	pods := client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "ephemeralcontainers"); err != nil {
		return nil, fmt.Errorf("starting a container in pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := awaitEnd(ctx, client, pod, c.Name); err != nil {
		return nil, fmt.Errorf("container %s of pod %s/%s: %w", c.Name, pod.Namespace, pod.Name, err)
	}
	out, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("container %s of pod %s/%s: what it printed: %w", c.Name, pod.Namespace, pod.Name, err)
	}
	return out, nil
}

// container is what every Pod Security level admits, unless it is for root.
func container(p Program) corev1.EphemeralContainer {
	yes, no, user := true, false, p.User
	security := &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user, AllowPrivilegeEscalation: &no, Privileged: &no, ReadOnlyRootFilesystem: &yes,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if user != 0 {
		security.RunAsNonRoot, security.Capabilities = &yes, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	} else {
		security.RunAsNonRoot = &no
	}
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name:  p.Name + "-" + strings.ToLower(rand.Text()[:8]),
		Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: p.Args,
		SecurityContext: security, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}
}

// stuck are reasons to wait that no waiting ends.
var stuck = map[string]bool{"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true}

// awaitEnd waits until the container has.
func awaitEnd(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, name string) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	doing := "the kubelet has not started it"
	for {
		now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		case err != nil:
			return err
		}
		for _, s := range now.Status.EphemeralContainerStatuses {
			switch {
			case s.Name != name:
			case s.State.Terminated != nil:
				return nil
			case s.State.Waiting != nil && stuck[s.State.Waiting.Reason]:
				return fmt.Errorf("it does not start: %s: %s", s.State.Waiting.Reason, s.State.Waiting.Message)
			case s.State.Waiting != nil:
				doing = "it waits: " + s.State.Waiting.Reason
			case s.State.Running != nil:
				doing = "it runs still"
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
