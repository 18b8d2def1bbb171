package kubetrust

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// ConfigMapName is the ConfigMap that pods mount; Istio's name.
	ConfigMapName = "istio-ca-root-cert"
	// ConfigMapKey is the bundle's key in it.
	ConfigMapKey = "root-cert.pem"

	// Label is set on what this package wrote, to LabelValue.
	Label = "app.kubernetes.io/managed-by"
	// LabelValue is the control plane's name.
	LabelValue = "sallyport"

	// pageSize is how many ConfigMaps are listed at a time.
	pageSize = 500
	// writesPerSecond and writesAtOnce bound what a new root costs the API server and the kubelets: 1,000 namespaces take
	// 50 seconds.
	writesPerSecond = 20
	writesAtOnce    = 20
	// reportedErrors bounds how many namespaces an error names.
	reportedErrors = 10
)

// ConfigMaps keeps the trust bundle in every namespace.
type ConfigMaps struct {
	// Client is clientset.CoreV1().
	Client typed.ConfigMapsGetter
	// KeepOthers leaves ConfigMaps alone that somebody else made, for meshes that share a cluster with Istio's control
	// plane. Otherwise they are taken over: Istio leaves its own behind when it is removed.
	KeepOthers bool
	Log        *slog.Logger
	// Limit bounds the writes; nil is 20 a second.
	Limit *rate.Limiter
}

// Changes is what a pass did.
type Changes struct{ Created, Updated, Deleted, Kept int } // Kept are others' that were left alone

// Distribute writes the bundle into each of the namespaces where it is not, and deletes its own ConfigMaps elsewhere
// (other namespaces, which are not to have it). Namespaces that go away meanwhile are passed over. It goes on after an
// error, which joins those of the first few namespaces; a call with the same arguments mends the rest.
func (c *ConfigMaps) Distribute(ctx context.Context, namespaces []string, bundle []byte) (Changes, error) {
	if len(bundle) == 0 {
		return Changes{}, errors.New("trust bundle: it is empty, and would take every root from the mesh")
	}
	if c.Limit == nil {
		c.Limit = rate.NewLimiter(writesPerSecond, writesAtOnce)
	}
	have, err := c.list(ctx)
	if err != nil {
		return Changes{}, fmt.Errorf("trust bundle: list ConfigMaps %s: %w", ConfigMapName, err)
	}
	var done Changes
	var failed failures
	for _, ns := range distinct(namespaces) {
		failed.add(ns, c.update(ctx, &done, ns, have[ns], bundle))
		delete(have, ns)
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(have)) {
		failed.add(ns, c.prune(ctx, &done, have[ns]))
	}
	return done, failed.join()
}

// list returns what is there, by namespace.
func (c *ConfigMaps) list(ctx context.Context) (map[string]*corev1.ConfigMap, error) {
	have := map[string]*corev1.ConfigMap{}
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + ConfigMapName, Limit: pageSize}
	for {
		page, err := c.Client.ConfigMaps(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if m := &page.Items[i]; m.Name == ConfigMapName {
				have[m.Namespace] = m
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return have, nil
		}
	}
}

// update makes one namespace right.
func (c *ConfigMaps) update(ctx context.Context, done *Changes, namespace string, have *corev1.ConfigMap, bundle []byte) error {
	if have == nil {
		if err := c.Limit.Wait(ctx); err != nil {
			return err
		}
		_, err := c.Client.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMapName, Labels: map[string]string{Label: LabelValue}},
			Data:       map[string]string{ConfigMapKey: string(bundle)},
		}, metav1.CreateOptions{})
		if err != nil {
			return ignore(err, goingAway)
		}
		done.Created++
		return nil
	}
	ours := have.Labels[Label] == LabelValue
	switch {
	case !ours && c.KeepOthers:
		done.Kept++
		return nil
	case ours && have.Data[ConfigMapKey] == string(bundle):
		return nil
	}
	if err := c.Limit.Wait(ctx); err != nil {
		return err
	}
	next := have.DeepCopy()
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Labels[Label], next.Data[ConfigMapKey] = LabelValue, string(bundle)
	if _, err := c.Client.ConfigMaps(namespace).Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return ignore(err, goingAway)
	}
	if !ours && c.Log != nil {
		c.Log.WarnContext(ctx, "took over a ConfigMap that somebody else made", "namespace", namespace, "name", ConfigMapName,
			"had", have.Labels)
	}
	done.Updated++
	return nil
}

// prune deletes one of ours, and only the version that was looked at.
func (c *ConfigMaps) prune(ctx context.Context, done *Changes, have *corev1.ConfigMap) error {
	if have.Labels[Label] != LabelValue {
		return nil
	}
	if err := c.Limit.Wait(ctx); err != nil {
		return err
	}
	err := c.Client.ConfigMaps(have.Namespace).Delete(ctx, ConfigMapName, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion},
	})
	if err != nil {
		return ignore(err, apierrors.IsNotFound)
	}
	done.Deleted++
	return nil
}

// goingAway says that a namespace is, or is gone.
func goingAway(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func ignore(err error, what func(error) bool) error {
	if what(err) {
		return nil
	}
	return err
}

func distinct(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// failures are the first few errors, and how many more there were.
type failures struct {
	first []error
	more  int
}

func (f *failures) add(name string, err error) {
	switch {
	case err == nil:
	case len(f.first) < reportedErrors:
		f.first = append(f.first, fmt.Errorf("trust bundle: %s: %w", name, err))
	default:
		f.more++
	}
}

func (f *failures) join() error {
	if f.more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("trust bundle: and %d more", f.more))...)
	}
	return errors.Join(f.first...)
}
