package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	admissionapi "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store/server"
)

// keptLog is a real audit server that has records: 3 of shop/cart and 1 of bank/till for external.test, which were allowed. It gives the socket.
func keptLog(t *testing.T) string {
	t.Helper()
	data, ready := t.TempDir(), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, server.Options{Data: data, Ready: func(_, _ string) { close(ready) }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-ready
	socket := filepath.Join(data, query.SocketName)
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var records []record.Record
	for i, from := range []string{"shop/cart", "shop/cart", "shop/cart", "bank/till"} {
		ns, name, _ := strings.Cut(from, "/")
		records = append(records, record.Record{
			Proxy: "p", Epoch: 1, Seq: uint64(i + 1), Time: time.Now().UTC(), Class: record.Network, Reporter: record.ReporterGateway, Direction: record.Outbound,
			Workload: record.Workload{Namespace: ns, ServiceAccount: name, Name: name + "-0", Labels: "app=" + name},
			Verdict:  record.Allowed, Path: record.PathGateway, Protocol: "tls", Host: "external.test", SNI: "external.test", Port: 443,
		})
	}
	if err := ingest.NewClient(conn).Store(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	return socket
}

// heard collects the warnings that kubectl would print.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
}

// taken gives what was heard since, without what is said of every object.
func (h *heard) taken() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.all {
		if strings.Contains(w, "newly") {
			out = append(out, w)
		}
	}
	h.all = nil
	return out
}

// TestForesight: who writes a policy is warned of what it would newly deny, of the own namespace's traffic; and who is not the API server learns nothing.
func TestForesight(t *testing.T) {
	config := apiserver.Start(t)
	c := beginWithLog(t, config, keptLog(t))
	ctx := t.Context()
	c.becomes("the webhook has its path", func() bool {
		v, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "sallyport-validator-"+system, metav1.GetOptions{})
		return err == nil && strings.Contains(*v.Webhooks[0].ClientConfig.URL, "/validate/")
	})
	said, warned := &heard{}, rest.CopyConfig(config)
	warned.WarningHandler = said
	client := dynamic.NewForConfigOrDie(warned).Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "egresspolicies"})
	shared := external("external.test")
	shared.Spec.ExportTo = []string{"*"}
	c.made(c.istio.NetworkingV1().ServiceEntries("shop").Create(ctx, shared, metav1.CreateOptions{}))
	closing := func(ns string) *unstructured.Unstructured {
		p := egressPolicy(map[string]any{"hosts": []any{"external.test"}, "action": "Deny", "reason": "closed", "owner": "shop"})
		p.SetNamespace(ns)
		return p
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	var got []string
	c.becomes("a warning", func() bool { // once the entry is read, and the log was asked
		said.taken()
		if _, err := client.Namespace("shop").Create(ctx, closing("shop"), dry); err != nil {
			t.Fatal(err)
		}
		got = said.taken()
		return len(got) > 0
	})
	if len(got) != 1 || !strings.Contains(got[0], "would newly deny 3 connections or requests of 1 workload in the last hour: shop/cart to external.test:443 (3); see sallyport simulate") {
		t.Errorf("of shop: %q", got)
	}
	c.becomes("a warning of all", func() bool {
		if _, err := client.Namespace(system).Create(ctx, closing(system), dry); err != nil {
			t.Fatal(err)
		}
		got = said.taken()
		return len(got) > 0
	})
	if len(got) != 1 || !strings.Contains(got[0], "would newly deny 4 connections or requests of 2 workloads") || !strings.Contains(got[0], "bank/till") {
		t.Errorf("of all: %q", got)
	}
	if p, err := client.Namespace("shop").List(ctx, metav1.ListOptions{}); err != nil || len(p.Items) != 0 {
		t.Errorf("what was only tried is there: %v, %v", p, err)
	}
	for _, path := range []string{"/validate", "/validate/" + strings.Repeat("0", 64)} {
		if answer := forge(t, c.at.Webhooks, path, closing("shop")); !answer.Allowed || slices.ContainsFunc(answer.Warnings, func(w string) bool { return strings.Contains(w, "newly") }) {
			t.Errorf("by %s somebody learns %q", path, answer.Warnings)
		}
	}
	if _, metrics := c.get("/metrics"); !strings.Contains(metrics, `sallyport_foresight_seconds_count{result="said"} 2`) {
		t.Error("the metric does not count two warnings")
	}
}

// forge asks the webhook as no API server does.
func forge(t *testing.T, address, path string, o *unstructured.Unstructured) *admissionapi.AdmissionResponse {
	t.Helper()
	raw, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(admissionapi.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionapi.AdmissionRequest{UID: "u", Operation: admissionapi.Create, Object: runtime.RawExtension{Raw: raw}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Post("https://"+address+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionapi.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return review.Response
}

// TestRecently: nobody waits longer than he can, one question is under way at a time, and its answer serves those who come later.
func TestRecently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan error)
		r := &recently{ask: func(ctx context.Context, namespaces []string) ([]inputs.Input, error) {
			asked++
			select {
			case err := <-answer:
				return []inputs.Input{{Count: uint64(asked)}}, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		of := func(namespaces ...string) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), foreseeWithin)
			defer cancel()
			list, err := r.of(ctx, namespaces)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(list[0].Count), nil
		}
		if _, err := of("shop"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a slow log: %v", err)
		}
		if _, err := of("bank"); !errors.Is(err, errBusy) {
			t.Errorf("while another is asked about: %v", err)
		}
		answer <- nil
		synctest.Wait()
		if got, err := of("shop"); got != "1" || err != nil || asked != 1 {
			t.Errorf("later: %q, %v, asked %d times", got, err, asked)
		}
		time.Sleep(foreseeFresh)
		go func() { answer <- errors.New("it is away") }()
		if _, err := of("shop"); err == nil || asked != 2 {
			t.Errorf("an old answer: %v, asked %d times", err, asked)
		}
		go func() { answer <- nil }()
		if got, err := of("shop"); got != "3" || err != nil {
			t.Errorf("after a failure: %q, %v", got, err)
		}
		if _, err := of("bank"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of others: %v", err)
		}
		time.Sleep(foreseeReading)
	})
}
