package overlay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// names lets labels, or annotations, be written that mean nothing to the mesh and make nobody put anything into a pod.
func names(at string, value any) error {
	all, is := value.(map[string]any)
	if !is {
		return refuse(at, value, "write an object")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		field := at + "[" + name + "]"
		if why := taken(name); why != "" {
			return refuse(field, all[name], why+": remove it, or write it in spec.infrastructure of the Gateway")
		}
		if _, is := all[name].(string); !is && all[name] != nil {
			return refuse(field, all[name], "write a text, in quotes")
		}
	}
	return nil
}

// taken says why a ConfigMap does not set a label or an annotation of this name; "" where it may.
func taken(name string) string {
	domain, local, has := strings.Cut(name, "/")
	if !has {
		domain, local = "", name
	}
	under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case slices.ContainsFunc(meshDomains, under), name == "app.kubernetes.io/managed-by", local == "pod-template-hash", strings.HasPrefix(name, "$"):
		return "the mesh's own"
	case slices.ContainsFunc(rightsDomains, under), strings.Contains(domain, ".security."):
		return "it gives pods an identity, a network or rights"
	case strings.Contains(name, "inject"):
		return "other programs put something into pods by it"
	}
	return ""
}

var (
	// meshDomains are those whose names the mesh reads.
	meshDomains = []string{"istio.io", "sallyport.io", "gateway.networking.k8s.io"}
	// rightsDomains are those by which clouds, networks and runtimes give pods what they have not by their specification. Those of Kubernetes for
	// seccomp and AppArmor have "security" in them.
	rightsDomains = []string{"cncf.io", "amazonaws.com", "iam.gke.io", "azure.workload.identity", "cri-o.io", "nri.io"}
)

// keeps says which label or annotation a set would change that an object has already.
func (s *Set) keeps(key Key, of any) error {
	o, is := of.(metav1.Object)
	if !is {
		return nil
	}
	all := map[string]metav1.Object{"metadata": o}
	if d, is := of.(*appsv1.Deployment); is {
		all["spec.template.metadata"] = &d.Spec.Template
	}
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if err := s.keepsNames(key, at+".labels", all[at].GetLabels()); err != nil {
			return err
		}
		if err := s.keepsNames(key, at+".annotations", all[at].GetAnnotations()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) keepsNames(key Key, at string, has map[string]string) error {
	said, _ := s.Says(key, strings.Split(at, ".")...)
	names, _ := said.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if value, there := has[name]; there && names[name] != value {
			return refuse(at+"["+name+"]", names[name], fmt.Sprintf("the Gateway has it as %q: remove it, or write it in spec.infrastructure of the Gateway", value))
		}
	}
	return nil
}
