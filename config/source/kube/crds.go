package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crds are the CustomResourceDefinitions of our kinds that the server has, by name: what a metadata-only reflector
// keeps. Which versions are served is asked for one by one (served).
type crds struct {
	mu      sync.Mutex
	wanted  map[string]bool
	found   map[string]types.UID
	listed  bool  // found is what there is
	failed  error // why it is not, or was not lately
	changed chan struct{}
}

var _ cache.ReflectorStore = &crds{}

func newCRDs(kinds []kind) *crds {
	c := &crds{wanted: map[string]bool{}, found: map[string]types.UID{}, changed: make(chan struct{}, 1)}
	for _, k := range kinds {
		if k.custom {
			c.wanted[k.GroupResource.String()] = true
		}
	}
	return c
}

// look returns whether the CRD of a kind is there, by its UID; the error says why that is not known.
func (c *crds) look(k kind) (uid types.UID, there bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listed {
		if c.failed == nil {
			return "", false, errors.New("not listed yet")
		}
		return "", false, c.failed
	}
	uid, there = c.found[k.GroupResource.String()]
	return uid, there, nil
}

// set notes a change of what is there, if it is about one that is wanted.
func (c *crds) set(o any, gone bool) error {
	m, err := meta.Accessor(o)
	if err != nil || !c.wanted[m.GetName()] {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		delete(c.found, m.GetName())
	} else {
		c.found[m.GetName()] = m.GetUID()
	}
	c.signal()
	return nil
}

func (c *crds) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Add notes a CRD.
func (c *crds) Add(o any) error { return c.set(o, false) }

// Update notes that a CRD changed: perhaps the versions that it serves.
func (c *crds) Update(o any) error { return c.set(o, false) }

// Delete notes that a CRD is gone.
func (c *crds) Delete(o any) error { return c.set(o, true) }

// Replace notes all CRDs.
func (c *crds) Replace(list []any, _ string) error {
	found := map[string]types.UID{}
	for _, o := range list {
		m, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		if c.wanted[m.GetName()] {
			found[m.GetName()] = m.GetUID()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found, c.listed, c.failed = found, true, nil
	c.signal()
	return nil
}

// Resync is for stores that repeat themselves.
func (c *crds) Resync() error { return nil }

// result notes how listing or watching went.
func (c *crds) result(_ kind, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed = err; !c.listed {
		c.signal()
	}
}

// reflect keeps c up to date until ctx ends.
func (c *crds) reflect(ctx context.Context, cl *clients) {
	all := kind{Kind: "CustomResourceDefinition", GroupResource: crdResource.GroupResource(), expected: &metav1.PartialObjectMetadata{}}
	from, err := cl.listerWatcher(all, crdResource.Version)
	if err != nil {
		c.result(all, err) // a metadata client is there, so it cannot be
		return
	}
	cl.into(ctx, c, all, observed(all, from, c.result, c.result))
}

// notServed says that a kind is there, but in no version that is read, or not yet.
func notServed(k kind) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("%s is not served in any of the versions %s", k.GroupResource, strings.Join(k.versions, ", ")),
	}}
}

// askTimeout bounds one question.
const askTimeout = 10 * time.Second

// get asks for a document of JSON below /apis.
func (cl *clients) get(ctx context.Context, into any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	data, err := cl.raw.Get().MaxRetries(0).AbsPath(append([]string{"/apis"}, path...)...).DoRaw(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("/apis/%s: %w", strings.Join(path, "/"), err)
	}
	return nil
}

// served asks which version of a kind is served, the first of its versions, by way of its CRD.
func (cl *clients) served(ctx context.Context, k kind) (string, error) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := cl.get(ctx, &crd, crdResource.Group, crdResource.Version, crdResource.Resource, k.GroupResource.String()); err != nil {
		return "", err
	}
	if !meta.IsStatusConditionTrue(crd.Status.Conditions, "Established") {
		return "", notServed(k)
	}
	for _, want := range k.versions {
		for _, v := range crd.Spec.Versions {
			if v.Name == want && v.Served {
				return want, nil
			}
		}
	}
	return "", notServed(k)
}

// discovered asks which version of a kind is served by way of discovery, for those who may not look at CRDs.
func (cl *clients) discovered(ctx context.Context, k kind) (string, error) {
	var last error
	for _, version := range k.versions {
		var list metav1.APIResourceList
		if err := cl.get(ctx, &list, k.Group, version); err != nil {
			last = err
			continue
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Resource }) {
			return version, nil
		}
		last = notServed(k)
	}
	return "", last
}
