package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/suggest"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestReviewApplies: what is approved is applied with the rights of the kubeconfig, and no others.
func TestReviewApplies(t *testing.T) {
	a := startClusterLab(t)
	settings := mesh.Default()
	l := looked{now: time.Now(), inForce: suggest.Config{Snapshot: registry.New(&settings).Snapshot()}}
	read := decode.File("x.yaml", []byte(shopExternal))
	changes := []suggest.Change{{After: &read.Objects[0]}}
	entries := rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"serviceentries"}}
	of := func(user string, verbs ...string) *reviewFlags {
		rule := entries
		rule.Verbs = verbs
		f := &reviewFlags{apply: true}
		f.log.cluster.kubeconfig = a.as(user, rule).kubeconfig
		return f
	}
	if _, err := of("reads", "get").prepare(t.Context(), l, changes); err == nil || !strings.Contains(err.Error(), "your own rights do not allow it") {
		t.Errorf("who may not write: %v", err)
	}
	f := of("writes", "get", "create")
	if err := f.mayApply(); err != nil {
		t.Error(err)
	}
	ready, err := f.prepare(t.Context(), l, changes)
	if err != nil {
		t.Fatal(err)
	}
	if err := ready.Apply(t.Context()); err != nil || ready.String() != "ServiceEntry shop/external" {
		t.Fatal(ready, err)
	}
	if _, err := a.entries.Namespace("shop").Get(t.Context(), "external", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	a.byToken(t, changes)
	f.source.configDir = "x"
	if err := f.mayApply(); !errors.As(err, new(program.UsageError)) {
		t.Errorf("to a directory: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if err := (&reviewFlags{apply: true}).mayApply(); !errors.As(err, new(program.UsageError)) {
		t.Errorf("to no cluster: %v", err)
	}
}

// byToken: the page's server hands objects in with a reader's token, and with nothing that it may do itself.
func (a *clusterLab) byToken(t *testing.T, changes []suggest.Change) {
	access, err := kube.Connect(a.kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	a.made(a.client.CoreV1().ServiceAccounts("shop").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}))
	token, err := a.client.CoreV1().ServiceAccounts("shop").CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"a reader's": token.Status.Token, "nobody's": "x"} {
		if _, err := applyTo(access)(t.Context(), token, changes); err == nil || !strings.Contains(err.Error(), "your own rights") && !strings.Contains(err.Error(), "does not know you") {
			t.Errorf("with %s token: %v", name, err)
		}
	}
}

// TestAskedBeforeItIsApplied: what is applied was shown before and agreed to, or asked for with --yes; with --dry-run it is shown only.
func TestAskedBeforeItIsApplied(t *testing.T) {
	for answer, want := range map[string]error{"y\n": nil, "Yes\n": nil, "\n": program.AnswerNo{}, "n\n": program.AnswerNo{}, "": program.AnswerNo{}, "yesterday\n": program.AnswerNo{}} {
		if err := agrees(t.Context(), strings.NewReader(answer), io.Discard); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", answer, err, want)
		}
	}
	silent, write := io.Pipe()
	t.Cleanup(func() { write.Close() })
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := agrees(interrupted, silent, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, tt := range []struct {
		flags reviewFlags
		want  error
		shown bool
	}{
		{reviewFlags{apply: true, dryRun: true}, errOnlyShown, true}, {reviewFlags{apply: true, yes: true}, nil, false},
	} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetIn(strings.NewReader("y\n")) // which is no terminal
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		if err := tt.flags.agreed(cmd, review.Decision{}, []byte("kind: X\n")); !errors.Is(err, tt.want) || (out.Len() > 0) != tt.shown {
			t.Errorf("%+v: %v, %q", tt.flags, err, out.String())
		}
		if err := (&reviewFlags{apply: true}).agreed(cmd, review.Decision{}, nil); !errors.As(err, new(program.UsageError)) {
			t.Errorf("without a terminal: %v", err)
		}
	}
	for _, f := range []reviewFlags{{yes: true}, {dryRun: true}, {apply: true, yes: true, dryRun: true}, {apply: true, observed: observed{}, write: "x.yaml"}} {
		if err := f.mayApply(); !errors.As(err, new(program.UsageError)) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
