package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/load"
	"github.com/sallyport/sallyport/e2e/world"
)

const (
	policyNamespaces = 500          // that policies are spread over
	hostsOfPolicy    = 10           // that each one has a rule about
	probed           = "probe.test" // what the client's policy denies, which says whether policies are in force
	// policiesTarget is what a request with policies may cost of one without.
	policiesTarget = 1.05
)

// costs is what a load costs with policies and without, round by round.
type costs struct {
	Hosts, Policies int
	Load            string
	With, Without   []sample
	Failures        int
	First           string
}

// comparePolicies measures each load with policies and without, in turn: the same Envoys, and nothing else differs.
func comparePolicies(ctx context.Context, ours *programmed, p plan, policies int) (all []costs, err error) {
	for _, hosts := range p.hosts {
		if err := ours.scene.Config.Write("probed.yaml", fmt.Sprintf(entry, "probed", probed)); err != nil {
			return nil, err
		}
		if err := ours.register(ctx, hosts); err != nil {
			return nil, fmt.Errorf("%d hosts: %w", hosts, err)
		}
		if err := ours.rest(true); err != nil {
			return nil, err
		}
		loads := make([]costs, len(p.loads))
		in := false
		for round := range p.rounds {
			for _, with := range []bool{round%2 == 1, round%2 == 0} {
				if with != in {
					if err := ours.police(ctx, with, policies, hosts); err != nil {
						return nil, err
					}
					in = with
				}
				for i, l := range p.loads {
					loads[i].Hosts, loads[i].Policies, loads[i].Load = hosts, policies, l.Name
					if err := loads[i].round(ctx, ours, order{traffic: l, Clients: p.clients, Warm: p.warm, Duration: p.duration}, with); err != nil {
						return nil, err
					}
				}
			}
		}
		for _, c := range loads {
			fmt.Fprintf(p.progress, "%d hosts, %d policies, %s: %.3f of the gateway's CPU, %.3f of both Envoys'\n", hosts, policies, c.Load, c.ratio(atGateway), c.ratio(ofBoth))
		}
		all = append(all, loads...)
	}
	return all, ours.rest(false)
}

func (c *costs) round(ctx context.Context, ours *programmed, o order, with bool) error {
	got, err := ours.patientRound(ctx, o)
	if err != nil {
		return err
	}
	if got.Requests == 0 {
		return fmt.Errorf("%s, with policies %t: no request worked: %s", o.Name, with, got.First)
	}
	if c.Failures += got.Failures; c.First == "" {
		c.First = got.First
	}
	if with {
		c.With = append(c.With, got)
	} else {
		c.Without = append(c.Without, got)
	}
	return nil
}

// atGateway and ofBoth are whose processor time counts.
func atGateway(s sample) float64 { return micro(s.EnvoyCPU[1]) }
func ofBoth(s sample) float64    { return micro(s.envoys()) }

// ratio is with / without: the median of the rounds' ratios. Less is better.
func (c costs) ratio(of func(sample) float64) float64 {
	var all []float64
	for i := range c.With {
		all = append(all, of(c.With[i])/of(c.Without[i]))
	}
	return median(all)
}

// police writes the policies, or takes them away, waits until the gateway keeps them, or does not, and has the controller rest.
func (p *programmed) police(ctx context.Context, with bool, policies, hosts int) error {
	if err := p.rest(false); err != nil {
		return err
	}
	var err error
	if with {
		err = p.scene.Config.Write("policies.yaml", policiesText(policies, hosts))
	} else {
		err = p.scene.Config.Remove("policies.yaml")
	}
	if err != nil {
		return err
	}
	if err := world.Within(ctx, time.Minute, func() error {
		denied, err := p.denied(ctx)
		if err == nil && denied != with {
			err = fmt.Errorf("%s is denied: %t", probed, denied)
		}
		return err
	}); err != nil {
		return fmt.Errorf("%d policies, with them %t: %w", policies, with, err)
	}
	return p.rest(true)
}

// denied says whether a policy denies what it would, by a request of the client's.
func (p *programmed) denied(ctx context.Context) (bool, error) {
	client := http.Client{Timeout: exchangeLimit, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return p.world.App.DialContext(ctx, network, net.JoinHostPort(serverAddr.String(), "80"))
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probed+"/", nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch said := string(body); {
	case err != nil:
		return false, err
	case resp.StatusCode == http.StatusForbidden && strings.Contains(said, "denied by EgressPolicy"):
		return true, nil
	case resp.StatusCode == http.StatusForbidden: // its host is not known yet
		return false, errors.New(said)
	}
	return false, nil
}

// policiesText is so many policies of 500 namespaces, one of them the client's and one the root namespace. Each has rules about hosts that are registered.
func policiesText(policies, hosts int) string {
	var b strings.Builder
	for i := range policies {
		ns := fmt.Sprintf("team-%d", i%policyNamespaces)
		switch i {
		case 0:
			ns = "default"
		case 1:
			ns = "istio-system"
		}
		fmt.Fprintf(&b, "---\napiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: policy-%d, namespace: %s}\nspec:\n  rules:\n", i, ns)
		if ns == "istio-system" {
			b.WriteString("  - {name: never, hosts: ['*.never.test'], action: Deny}\n")
			continue
		}
		for n := range hostsOfPolicy {
			fmt.Fprintf(&b, "  - {name: rule-%d, hosts: [host-%d.of-%d.test], ports: [80, 443], action: Allow}\n", n, 1+(i*hostsOfPolicy+n)%max(hosts-1, 1), hosts)
		}
		if ns == "default" {
			fmt.Fprintf(&b, "  - {name: measured, hosts: [%s], ports: [80, 443], action: Allow}\n  - {name: probe, hosts: [%s], action: Deny}\n", host, probed)
		}
	}
	return b.String()
}

// The markers between which a document holds these figures.
const (
	policiesBegin = "<!-- policies, data plane -->"
	policiesEnd   = "<!-- /policies, data plane -->"
)

func policiesHead(p plan, policies int) string {
	return fmt.Sprintf("\n%s; %s; %d policies of %d namespaces, one of them the client's, and one policy of the root namespace's; medians of %d rounds of %s, %d clients. Target: at most %.2f.\n\n",
		load.Machine(), time.Now().UTC().Format(time.DateOnly), policies, policyNamespaces, p.rounds, p.duration, p.clients, policiesTarget)
}

// policiesTable is the ratios beside their target, in Markdown.
func policiesTable(all []costs) string {
	var b strings.Builder
	b.WriteString("| hosts | policies | load | CPU of the gateway's Envoy for a request, without | with | ratio | of both Envoys, without | with | ratio | failed |\n")
	b.WriteString("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|\n")
	mark := func(ratio float64) string {
		if ratio > policiesTarget {
			return "✗"
		}
		return "✓"
	}
	for _, c := range all {
		fmt.Fprintf(&b, "| %d | %d | %s | %.1f µs | %.1f µs | %.3f %s | %.1f µs | %.1f µs | %.3f %s | %d |\n", c.Hosts, c.Policies, c.Load,
			medianOf(c.Without, atGateway), medianOf(c.With, atGateway), c.ratio(atGateway), mark(c.ratio(atGateway)),
			medianOf(c.Without, ofBoth), medianOf(c.With, ofBoth), c.ratio(ofBoth), mark(c.ratio(ofBoth)), c.Failures)
	}
	return b.String()
}
