package joined

import (
	"context"
	"fmt"
	"maps"
	"time"

	"istio.io/api/annotation"
	networking "istio.io/api/networking/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/config/source/machines"
)

// perSecond is how many requests are made at most: after a restart all machines come at once.
const perSecond = 100

// timeout bounds one request.
const timeout = 15 * time.Second

// Store is a machines.Store in the API server.
type Store struct {
	entries, groups dynamic.NamespaceableResourceInterface
	replica         string
}

// New makes one for a replica, as machine.Holder writes it.
func New(cluster *rest.Config, replica string) (*Store, error) {
	c := rest.CopyConfig(cluster)
	c.QPS, c.Burst, c.Timeout = perSecond, perSecond, timeout
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	of := func(kind config.Kind, plural string) dynamic.NamespaceableResourceInterface {
		group, versions := decode.IstioKind(kind)
		return client.Resource(schema.GroupVersionResource{Group: group, Version: versions[0], Resource: plural})
	}
	return &Store{entries: of(config.KindWorkloadEntry, "workloadentries"), groups: of(config.KindWorkloadGroup, "workloadgroups"), replica: replica}, nil
}

// Put implements machines.Store.
func (s *Store) Put(ctx context.Context, e machines.Entry) error {
	at := s.entries.Namespace(e.Object.Namespace)
	held, err := at.Get(ctx, e.Object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !e.Gone.IsZero():
		return nil // somebody has removed it, and nobody is connected
	case apierrors.IsNotFound(err):
		if held, err = s.create(ctx, e); err != nil {
			return err
		}
	case err != nil:
		return err
	case held.GetAnnotations()[annotation.IoIstioAutoRegistrationGroup.Name] != e.Proxy.Group:
		return fmt.Errorf("it is there already, and is no machine's of %s", e.Proxy.GroupKey())
	case !ours(held):
		return fmt.Errorf("it is kept by another control plane (annotation %s: %q); have one of the two leave it, or remove it", annotation.IoIstioWorkloadController.Name, held.GetAnnotations()[annotation.IoIstioWorkloadController.Name])
	case !s.mayWrite(held, e):
		return nil
	default:
		return s.change(ctx, held, e)
	}
	_, err = s.tellHealth(ctx, held, e)
	return err
}

// change writes over an entry. That there is a probe counts as soon as it is said: how the machine is, is said before that, and let go after it.
func (s *Store) change(ctx context.Context, held *unstructured.Unstructured, e machines.Entry) (err error) {
	if probed(e) {
		if held, err = s.tellHealth(ctx, held, e); err != nil {
			return err
		}
		_, err = s.update(ctx, held, e)
		return err
	}
	if held, err = s.update(ctx, held, e); err != nil {
		return err
	}
	_, err = s.tellHealth(ctx, held, e)
	return err
}

// create writes an entry that is not there.
func (s *Store) create(ctx context.Context, e machines.Entry) (*unstructured.Unstructured, error) {
	group, err := s.groups.Namespace(e.Object.Namespace).Get(ctx, e.Proxy.Group, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(group.GetAPIVersion(), string(config.KindWorkloadEntry)))
	o.SetNamespace(e.Object.Namespace)
	o.SetName(e.Object.Name)
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: group.GetAPIVersion(), Kind: group.GetKind(), Name: group.GetName(), UID: group.GetUID(), Controller: new(true),
	}})
	if err := s.fill(o, e); err != nil {
		return nil, err
	}
	return s.entries.Namespace(e.Object.Namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
}

const manager = "sallyport"

// update writes over an entry. Whoever has written meanwhile makes it fail.
func (s *Store) update(ctx context.Context, held *unstructured.Unstructured, e machines.Entry) (*unstructured.Unstructured, error) {
	o := held.DeepCopy()
	if err := s.fill(o, e); err != nil {
		return nil, err
	}
	return s.entries.Namespace(e.Object.Namespace).Update(ctx, o, metav1.UpdateOptions{FieldManager: manager})
}

// fill says in an object what is to stand. Annotations of others stay.
func (s *Store) fill(o *unstructured.Unstructured, e machines.Entry) error {
	spec, err := specOf(e.Object.Spec.(*networking.WorkloadEntry))
	if err != nil {
		return err
	}
	o.Object["spec"] = spec
	o.SetLabels(e.Object.Labels)
	notes := maps.Clone(o.GetAnnotations())
	if notes == nil {
		notes = map[string]string{}
	}
	delete(notes, decode.HealthChecks)
	maps.Copy(notes, e.Object.Annotations)
	notes[annotation.IoIstioWorkloadController.Name] = s.replica
	notes[annotation.IoIstioConnectedAt.Name] = e.Connected.UTC().Format(time.RFC3339Nano)
	if delete(notes, annotation.IoIstioDisconnectedAt.Name); !e.Gone.IsZero() {
		notes[annotation.IoIstioDisconnectedAt.Name] = e.Gone.UTC().Format(time.RFC3339Nano)
	}
	o.SetAnnotations(notes)
	return nil
}

// ours says whether a control plane of this kind keeps an entry.
func ours(held *unstructured.Unstructured) bool {
	_, _, ok := machine.HolderOf(held.GetAnnotations())
	return ok
}

// mayWrite says whether this replica's word counts: the entry is its own, or its machine has come here after it went to the other.
func (s *Store) mayWrite(held *unstructured.Unstructured, e machines.Entry) bool {
	notes := held.GetAnnotations()
	if notes[annotation.IoIstioWorkloadController.Name] == s.replica {
		return true
	}
	since, err := time.Parse(time.RFC3339Nano, notes[annotation.IoIstioConnectedAt.Name])
	return e.Gone.IsZero() && (err != nil || e.Connected.After(since))
}

// Remove implements machines.Store.
func (s *Store) Remove(ctx context.Context, e machines.Entry) error {
	key := e.Key()
	at := s.entries.Namespace(key.Namespace)
	held, err := at.Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if e.Left == nil && held.GetAnnotations()[annotation.IoIstioWorkloadController.Name] != s.replica || e.Left != nil && !same(held, e.Left) {
		return nil // another replica has the machine
	}
	uid, version := held.GetUID(), held.GetResourceVersion()
	err = at.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// same says whether an entry is as it was seen: nobody has taken its machine over.
func same(held *unstructured.Unstructured, seen *config.Object) bool {
	for _, a := range []string{annotation.IoIstioAutoRegistrationGroup.Name, annotation.IoIstioWorkloadController.Name, annotation.IoIstioConnectedAt.Name} {
		if held.GetAnnotations()[a] != seen.Annotations[a] {
			return false
		}
	}
	return true
}
