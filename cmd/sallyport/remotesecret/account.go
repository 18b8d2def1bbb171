package remotesecret

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
)

// apply says whose fields these are. What others wrote in them is not overwritten, but an error.
var apply = metav1.ApplyOptions{FieldManager: "sallyport-remote-secret"}

// account makes the ServiceAccount, its ClusterRole and its binding, or leaves them as they are.
func account(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	_, err := client.CoreV1().ServiceAccounts(namespace).Apply(ctx, corev1apply.ServiceAccount(name, namespace).WithAutomountServiceAccountToken(false), apply)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q is not in the cluster that is to be read: create it there, or name another with --namespace: %w", namespace, err)
	}
	if err != nil {
		return fmt.Errorf("ServiceAccount %s/%s: %w", namespace, name, err)
	}
	role := name + "-" + namespace // cluster-wide, where names of several namespaces meet
	rules := []*rbacv1apply.PolicyRuleApplyConfiguration{
		rbacv1apply.PolicyRule().WithAPIGroups("").WithResources("namespaces", "pods", "services").WithVerbs("list", "watch"),
		rbacv1apply.PolicyRule().WithAPIGroups("discovery.k8s.io").WithResources("endpointslices").WithVerbs("list", "watch"),
	}
	if _, err := client.RbacV1().ClusterRoles().Apply(ctx, rbacv1apply.ClusterRole(role).WithRules(rules...), apply); err != nil {
		return fmt.Errorf("ClusterRole %s: %w", role, err)
	}
	binding := rbacv1apply.ClusterRoleBinding(role).
		WithRoleRef(rbacv1apply.RoleRef().WithAPIGroup("rbac.authorization.k8s.io").WithKind("ClusterRole").WithName(role)).
		WithSubjects(rbacv1apply.Subject().WithKind("ServiceAccount").WithNamespace(namespace).WithName(name))
	if _, err := client.RbacV1().ClusterRoleBindings().Apply(ctx, binding, apply); err != nil {
		return fmt.Errorf("ClusterRoleBinding %s: %w", role, err)
	}
	return nil
}

// tokenSecret is the name of the Secret with an account's token.
func tokenSecret(account string) string { return account + "-token" }

// askForToken makes the Secret that the cluster's token controller writes the account's token into.
func askForToken(ctx context.Context, client kubernetes.Interface, namespace, account string) error {
	secret := corev1apply.Secret(tokenSecret(account), namespace).WithType(corev1.SecretTypeServiceAccountToken).
		WithAnnotations(map[string]string{corev1.ServiceAccountNameKey: account})
	if _, err := client.CoreV1().Secrets(namespace).Apply(ctx, secret, apply); err != nil {
		return fmt.Errorf("the Secret %s/%s: %w", namespace, tokenSecret(account), err)
	}
	return nil
}
