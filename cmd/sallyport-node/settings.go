package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// settings are the flags of guard.
type settings struct {
	node, systemNamespace, kubeconfig, context string
	namespaces                                 []string
	selector                                   string
	exempt, pods, services, allow              []string
	unknown, spoofed, onExit                   string
	dryRun                                     bool
	healthAddr, logLevel                       string
}

func (s *settings) bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&s.node, "node-name", os.Getenv("NODE_NAME"), "`name` of the Node that this runs on ($NODE_NAME)")
	fs.StringVar(&s.systemNamespace, "system-namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "istio-system"),
		"`namespace` of the control plane and the gateways, which is never guarded ($POD_NAMESPACE)")
	fs.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig `file` (in a pod: the pod's own cluster)")
	fs.StringVar(&s.context, "context", "", "`context` in the kubeconfig file (default: its current one)")
	fs.StringSliceVar(&s.namespaces, "namespaces", nil, "guard the pods of these `namespaces`, and not by labels")
	fs.StringVar(&s.selector, "namespace-selector", nodeguard.DefaultSelectors,
		"guard the pods of namespaces whose labels match one of these `selectors`, with semicolons between them")
	fs.StringArrayVar(&s.exempt, "exempt", nil,
		"do not guard pods of a namespace, or those with labels in it, as a gateway of your own: `NAMESPACE[/SELECTOR]`; may be repeated")
	fs.StringSliceVar(&s.pods, "pod-network", nil, "`networks` of the cluster's pods, beside those that Nodes name (spec.podCIDRs)")
	fs.StringSliceVar(&s.services, "service-network", nil, "`networks` of Services (default: the addresses of those that there are)")
	fs.StringSliceVar(&s.allow, "allow", nil, "further `networks` that guarded pods may reach, such as 172.16.0.1/32 for an API server outside the cluster")
	fs.StringVar(&s.unknown, "unknown-pods", "deny",
		"deny or allow the world to addresses of this node's pods that the API server has not named yet: for up to seconds after a pod's start")
	fs.StringVar(&s.spoofed, "spoofed-sources", "deny",
		"deny or allow the world to packets that come from where their source address is not; allow it where routes are asymmetric")
	fs.StringVar(&s.onExit, "on-exit", "keep", "keep the rules in force when the guard ends, or release everything: before it is uninstalled")
	fs.BoolVar(&s.dryRun, "dry-run", false, "print the rules as nft reads them, and write nothing")
	fs.StringVar(&s.healthAddr, "health-addr", ":8081", "`address` of /healthz, /readyz and /metrics; empty for none")
	fs.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
}

// options checks the flags.
func (s *settings) options() (nodeguard.Options, error) {
	o := nodeguard.Options{Node: s.node, Namespaces: s.namespaces}
	var errs []error
	networks := func(flag string, texts []string) (list []netip.Prefix) {
		list, err := nodeguard.ParseNetworks(texts)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", flag, err))
		}
		return list
	}
	choice := func(flag, value, yes, no string) bool {
		if value != yes && value != no {
			errs = append(errs, fmt.Errorf("--%s %q: say %s or %s", flag, value, no, yes))
		}
		return value == yes
	}
	if s.node == "" {
		errs = append(errs, errors.New("--node-name is missing: name the Node that this runs on"))
	}
	if s.systemNamespace == "" {
		errs = append(errs, errors.New("--system-namespace \"\": the gateways' namespace must be known, or they would be guarded"))
	}
	for _, name := range s.namespaces {
		if name == s.systemNamespace || slices.Contains(nodeguard.SystemNamespaces, name) {
			errs = append(errs, fmt.Errorf("--namespaces %q: it is never guarded, because the cluster's own pods or the gateways are in it", name))
		}
	}
	selectors, err := nodeguard.ParseSelectors(s.selector)
	if err != nil {
		errs = append(errs, fmt.Errorf("--namespace-selector %w", err))
	} else if len(selectors) == 0 && len(s.namespaces) == 0 {
		errs = append(errs, errors.New("--namespace-selector is empty and --namespaces too: no pod would be guarded"))
	}
	o.NamespaceSelectors = selectors
	for _, text := range append([]string{s.systemNamespace}, s.exempt...) {
		if text == "" {
			continue // said already
		}
		e, err := nodeguard.ParseExemption(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--exempt %w", err))
		}
		o.Exempt = append(o.Exempt, e)
	}
	o.PodNetworks = networks("pod-network", s.pods)
	o.Allow = append(networks("allow", s.allow), networks("service-network", s.services)...)
	o.AllowUnknown = choice("unknown-pods", s.unknown, "allow", "deny")
	o.AllowSpoofed = choice("spoofed-sources", s.spoofed, "allow", "deny")
	choice("on-exit", s.onExit, "release", "keep")
	return o, errors.Join(errs...)
}

func (s *settings) log() (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToLower(s.logLevel))); err != nil {
		return nil, fmt.Errorf("--log-level %q: must be debug, info, warn or error", s.logLevel)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
