package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/admission"
)

// MaxFile is the size of a file at most, in bytes.
const MaxFile = 64 << 20

// maxListDepth bounds lists within lists.
const maxListDepth = 3

// AddFile takes what a YAML or JSON file has of pods, namespaces, NetworkPolicies and webhook configurations; other objects
// are passed over. Objects without a namespace are taken to be in the given one. What cannot be read is a finding.
func (o *Objects) AddFile(name string, data []byte, namespace string) (findings []admission.Finding) {
	if len(data) > MaxFile {
		return []admission.Finding{{Severity: admission.Error, Origin: name + ":1", Message: fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), MaxFile), Fix: "split it into several files"}}
	}
	for line, document := range documents(data) {
		origin := fmt.Sprintf("%s:%d", name, line)
		plain, err := yaml.YAMLToJSON(document)
		if err == nil {
			err = o.addObject(origin, plain, namespace, 0)
		}
		if err != nil {
			findings = append(findings, admission.Finding{Severity: admission.Error, Origin: origin, Message: "the object cannot be read: " + oneLine(err.Error()), Fix: "write it as kubectl would take it"})
		}
	}
	return findings
}

// documents cuts a file at its lines "---", and gives each document's first line, counted from 1.
func documents(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		var document []byte
		line, first := 0, 1
		for text := range bytes.Lines(data) {
			line++
			if rest, ok := bytes.CutPrefix(text, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
				if !yield(first, document) {
					return
				}
				document = nil
			}
			if len(bytes.TrimSpace(document)) == 0 {
				document, first = nil, line
			}
			if !bytes.HasPrefix(text, []byte("---")) || len(bytes.TrimSpace(text)) > 3 {
				document = append(document, text...)
			}
		}
		yield(first, document)
	}
}

func (o *Objects) addObject(origin string, plain []byte, namespace string, depth int) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(plain, &head); err != nil || head.Kind == "" {
		return nil // no object of Kubernetes
	}
	if head.Items != nil && depth < maxListDepth {
		for _, item := range head.Items {
			if err := o.addObject(origin, item, namespace, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(plain, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil
	} else if err != nil {
		return err
	}
	o.take(origin, object, namespace)
	return nil
}

// take sorts an object in.
func (o *Objects) take(origin string, object runtime.Object, namespace string) {
	template := func(kind string, m metav1.ObjectMeta, t corev1.PodTemplateSpec) {
		pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		pod.Namespace, pod.Name = orDefault(m.Namespace, namespace), m.Name
		o.Templates = append(o.Templates, Template{Key: key(kind, pod.Namespace, m.Name), Origin: origin, Pod: pod})
	}
	switch x := object.(type) {
	case *corev1.Pod:
		template("Pod", x.ObjectMeta, corev1.PodTemplateSpec{ObjectMeta: x.ObjectMeta, Spec: x.Spec})
	case *appsv1.Deployment:
		template("Deployment", x.ObjectMeta, x.Spec.Template)
	case *appsv1.ReplicaSet:
		template("ReplicaSet", x.ObjectMeta, x.Spec.Template)
	case *appsv1.StatefulSet:
		template("StatefulSet", x.ObjectMeta, x.Spec.Template)
	case *appsv1.DaemonSet:
		template("DaemonSet", x.ObjectMeta, x.Spec.Template)
	case *corev1.ReplicationController:
		if x.Spec.Template != nil {
			template("ReplicationController", x.ObjectMeta, *x.Spec.Template)
		}
	case *batchv1.Job:
		template("Job", x.ObjectMeta, x.Spec.Template)
	case *batchv1.CronJob:
		template("CronJob", x.ObjectMeta, x.Spec.JobTemplate.Spec.Template)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, *x)
	case *networkingv1.NetworkPolicy:
		x.Namespace = orDefault(x.Namespace, namespace)
		o.Policies = append(o.Policies, *x)
	case *admissionv1.MutatingWebhookConfiguration:
		o.Injectors = append(o.Injectors, *x)
	}
}

func orDefault(namespace, other string) string {
	if namespace == "" {
		return other
	}
	return namespace
}
