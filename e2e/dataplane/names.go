package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// namePattern has the names that an ingress gateway is measured with, each of a row of its own in one table.
const namePattern = "*.many.test"

// namesGateway has them inside of TLS.
const namesGateway = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: many, namespace: istio-ingress}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 443, name: https-many, protocol: HTTPS}, hosts: ["` + namePattern + `"], tls: {mode: SIMPLE, credentialName: shown}}]
`

const nameRoute = `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: many-%[1]d, namespace: default}
spec: {hosts: [n-%[1]d.many.test], gateways: [istio-ingress/many], http: [{route: [{destination: {host: %[2]s}}]}]}
`

// namesLimit is what an ingress gateway's Envoy may take for a name, in KiB.
const namesLimit = 40

// measureNames says what an ingress gateway's proxy takes for a name: its memory with one, and with so many.
func measureNames(ctx context.Context, p *programmed, n int) error {
	ends := p.ends[ingress]
	took := func(names int) (memory, error) {
		var text strings.Builder
		text.WriteString(namesGateway)
		for i := range names {
			fmt.Fprintf(&text, nameRoute, i, podHost)
		}
		if err := p.scene.Config.Write("names.yaml", text.String()); err != nil {
			return memory{}, err
		}
		if err := p.answers(ctx, fmt.Sprintf("n-%d.many.test", names-1)); err != nil {
			return memory{}, err
		}
		pause(ctx, givenBack)
		return settled(ctx, ends.envoys[0], ends.agents[0])
	}
	one, err := took(1)
	if err != nil {
		return err
	}
	many, err := took(n)
	if err != nil {
		return err
	}
	each := func(of func(memory) int64) float64 { return float64(of(many)-of(one)) / 1024 / float64(n-1) }
	envoy := each(func(m memory) int64 { return m.envoy })
	mark := "✓"
	if envoy > namesLimit {
		mark = "✗"
	}
	fmt.Printf("| names at an ingress gateway, each with a route of its own | Envoy, with one and with all | for a name | wanted | | agent, for a name |\n|---:|---:|---:|---:|---|---:|\n"+
		"| %d | %.0f, %.0f MB | %.1f KiB | ≤ %d KiB | %s | %.1f KiB |\n",
		n, float64(one.envoy)/1e6, float64(many.envoy)/1e6, envoy, namesLimit, mark, each(func(m memory) int64 { return m.agent }))
	return nil
}

// answers waits until a name is served at the ingress gateway.
func (p *programmed) answers(ctx context.Context, name string) error {
	at := netip.AddrPortFrom(ingressAddr, ingressTLS).String()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: p.world.Outside.DialContext, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // what it shows is of another name
	}}
	return world.Within(ctx, 5*time.Minute, func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at+"/", nil)
		if err != nil {
			return err
		}
		r.Host = name
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if text, _ := io.ReadAll(io.LimitReader(answer.Body, 200)); answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s %s", name, answer.Status, strings.TrimSpace(string(text)))
		}
		return nil
	})
}
