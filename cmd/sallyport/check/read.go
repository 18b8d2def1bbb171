package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// pageSize is how many objects are listed at a time.
const pageSize = 500

// Read asks an API server for everything that Cluster looks at, but for what the controllers say. Parts that cannot be
// read are noted in Unread. Of Secrets nothing but certificates is kept. namespace limits which pods are read; "" is all.
func Read(ctx context.Context, client kubernetes.Interface, system, namespace string, cfg mesh.Config) *Objects {
	o := &Objects{System: system, Namespace: namespace, Mesh: cfg, Injection: inject.Default(), Bundles: map[string]string{}, Signer: map[string]string{}, Kinds: map[string]bool{}, Unread: map[Part]error{}}
	for part, read := range map[Part]func(context.Context, kubernetes.Interface) error{
		PartNamespaces: o.readNamespaces, PartPods: o.readPods, PartPolicies: o.readPolicies, PartGuard: o.readGuard,
		PartController: o.readController, PartAudit: o.readAudit, PartGateway: o.readGateway, PartInjection: o.readInjection,
		PartWebhooks: o.readWebhooks, PartBundles: o.readBundles, PartKinds: o.readKinds, PartRights: o.readRights, PartSigner: o.readSigner, PartEgress: o.readEgress,
	} {
		if err := read(ctx, client); err != nil {
			o.Unread[part] = err
		}
	}
	return o
}

// pages lists all objects of a kind.
func pages[T any](ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (items []T, next string, err error)) ([]T, error) {
	var all []T
	options.Limit = pageSize
	for {
		items, next, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if options.Continue = next; next == "" {
			return all, nil
		}
	}
}

// found drops the error that says that an object is not there.
func found[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return object, nil
}

func (o *Objects) readNamespaces(ctx context.Context, client kubernetes.Interface) (err error) {
	if o.Namespace != "" { // one may be allowed where all are not
		ns, err := client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
		if err == nil {
			o.Namespaces = []corev1.Namespace{*ns}
		}
		return err
	}
	o.Namespaces, err = pages(ctx, metav1.ListOptions{}, func(ctx context.Context, options metav1.ListOptions) ([]corev1.Namespace, string, error) {
		list, err := client.CoreV1().Namespaces().List(ctx, options)
		return list.Items, list.Continue, err
	})
	return err
}

func (o *Objects) readPods(ctx context.Context, client kubernetes.Interface) error {
	namespaces := []string{o.Namespace}
	if o.Namespace != "" && o.Namespace != o.System {
		namespaces = append(namespaces, o.System)
	}
	for _, ns := range namespaces {
		pods, err := pages(ctx, metav1.ListOptions{}, func(ctx context.Context, options metav1.ListOptions) ([]corev1.Pod, string, error) {
			list, err := client.CoreV1().Pods(ns).List(ctx, options)
			return list.Items, list.Continue, err
		})
		if err != nil {
			return err
		}
		o.Pods = append(o.Pods, pods...)
	}
	return nil
}

func (o *Objects) readPolicies(ctx context.Context, client kubernetes.Interface) error {
	list, err := client.NetworkingV1().NetworkPolicies(o.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil {
		o.Policies = list.Items
	}
	return err
}

func (o *Objects) readGuard(ctx context.Context, client kubernetes.Interface) (err error) {
	o.Guard, err = found(client.AppsV1().DaemonSets(o.System).Get(ctx, "sallyport-node", metav1.GetOptions{}))
	return err
}

func (o *Objects) readController(ctx context.Context, client kubernetes.Interface) (err error) {
	o.Controller, err = found(client.AppsV1().Deployments(o.System).Get(ctx, "sallyport", metav1.GetOptions{}))
	return err
}

func (o *Objects) readAudit(ctx context.Context, client kubernetes.Interface) (err error) {
	o.Audit, err = found(client.AppsV1().StatefulSets(o.System).Get(ctx, "sallyport-audit", metav1.GetOptions{}))
	return err
}

func (o *Objects) readGateway(ctx context.Context, client kubernetes.Interface) (err error) {
	at := o.Mesh.DefaultGateway
	if at.IsDirect() {
		return nil
	}
	if o.Gateway, err = found(client.CoreV1().Services(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})); err != nil {
		return err
	}
	list, err := client.DiscoveryV1().EndpointSlices(at.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + at.Name})
	if err == nil {
		o.Endpoints = list.Items
	}
	return err
}

func (o *Objects) readInjection(ctx context.Context, client kubernetes.Interface) error {
	m, err := client.CoreV1().ConfigMaps(o.System).Get(ctx, "sallyport-injector", metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.Injection, err = InjectionSettings([]byte(m.Data["config"]), o.Mesh)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/sallyport-injector: config: %s", o.System, oneLine(err.Error()))
	}
	return nil
}

// InjectionSettings are the injector's, with what the mesh's settings say of pods, as the webhook has them; what Sidecars say of some pods is left out.
func InjectionSettings(text []byte, cfg mesh.Config) (inject.Settings, error) {
	s, err := inject.ParseSettings(text)
	s.Permissions, s.NoMutualTLS = cfg.Injection, !cfg.MutualTLS
	s.Closed = func(string, map[string]string) bool { return !cfg.OutboundAllowAny }
	return s, err
}

func (o *Objects) readWebhooks(ctx context.Context, client kubernetes.Interface) error {
	hooks := client.AdmissionregistrationV1()
	injector, err := found(hooks.MutatingWebhookConfigurations().Get(ctx, "sallyport-injector-"+o.System, metav1.GetOptions{}))
	if err != nil {
		return err
	}
	validator, err := found(hooks.ValidatingWebhookConfigurations().Get(ctx, "sallyport-validator-"+o.System, metav1.GetOptions{}))
	if err != nil {
		return err
	}
	if injector != nil {
		o.Injectors = append(o.Injectors, *injector)
	}
	if validator != nil {
		o.Validators = append(o.Validators, *validator)
	}
	return nil
}

func (o *Objects) readBundles(ctx context.Context, client kubernetes.Interface) error {
	maps, err := pages(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + bundleName}, func(ctx context.Context, options metav1.ListOptions) ([]corev1.ConfigMap, string, error) {
		list, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, options)
		return list.Items, list.Continue, err
	})
	for _, m := range maps {
		o.Bundles[m.Namespace] = m.Data[bundleKey]
	}
	return err
}

func (o *Objects) readKinds(_ context.Context, client kubernetes.Interface) error {
	for _, version := range []string{"networking.istio.io/v1", "networking.istio.io/v1beta1", "networking.istio.io/v1alpha3", v1alpha1.Group + "/" + v1alpha1.Version} {
		list, err := found(client.Discovery().ServerResourcesForGroupVersion(version))
		if err != nil {
			return err
		}
		if list == nil {
			continue
		}
		for _, r := range list.APIResources {
			o.Kinds[r.Name] = true
		}
	}
	return nil
}

func (o *Objects) readRights(ctx context.Context, client kubernetes.Interface) error {
	bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, b := range bindings.Items {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == o.System && s.Name == "sallyport"
		}) {
			continue
		}
		role, err := found(client.RbacV1().ClusterRoles().Get(ctx, b.RoleRef.Name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if role != nil {
			o.Roles = append(o.Roles, role.Rules...)
		}
	}
	return nil
}

// readSigner keeps the certificates of the CA's Secret: the given one counts where there are two.
func (o *Objects) readSigner(ctx context.Context, client kubernetes.Interface) error {
	for _, name := range []string{"cacerts", "istio-ca-secret"} {
		secret, err := found(client.CoreV1().Secrets(o.System).Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if secret == nil {
			continue
		}
		for _, field := range []string{"ca-cert.pem", "tls.crt"} {
			if pem := secret.Data[field]; len(pem) > 0 {
				o.Signer[fmt.Sprintf("Secret %s/%s: data[%s]", o.System, name, field)] = strings.Clone(string(pem))
			}
		}
		return nil
	}
	return nil
}
