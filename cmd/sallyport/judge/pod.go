package judge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/sidecar/inject"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/verify"
)

// proxyID is the user whose traffic a pod's rules do not catch.
const proxyID = 1337

// Pod is a pod, as far as it says what is caught of its traffic.
type Pod struct {
	Key         config.Key
	Namespace   string
	User        int64 // that the ways were tried as
	annotations map[string]string
	hostNetwork bool
	proxy       bool
	rules       *redirect.Options // of its init step; nil where it has none
	dns         bool              // whether its environment leaves DNS to be caught
}

// NewPod reads a pod as it runs: what its init step was told counts, not what the injector would say today.
func NewPod(p *corev1.Pod, user int64) *Pod {
	out := &Pod{
		Key: config.Key{Kind: config.KindPod, Namespace: p.Namespace, Name: p.Name}, Namespace: p.Namespace, User: user,
		annotations: p.Annotations, hostNetwork: p.Spec.HostNetwork, dns: true,
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		switch c.Name {
		case inject.ProxyName:
			out.proxy = true
		case inject.InitName:
			out.readInit(c)
		}
	}
	return out
}

// readInit reads the arguments of the init step.
func (p *Pod) readInit(c corev1.Container) {
	fs := pflag.NewFlagSet("init", pflag.ContinueOnError)
	settings := redirect.Bind(fs)
	environment := map[string]string{}
	for _, e := range c.Env {
		environment[e.Name] = e.Value
	}
	if len(c.Args) == 0 || fs.Parse(c.Args[1:]) != nil || redirect.FromEnvironment(fs, func(name string) string { return environment[name] }) != nil {
		return
	}
	if options, err := settings.Options(true); err == nil {
		p.rules, p.dns = &options, options.RedirectDNS
	}
}

// ExcludedPorts are the TCP ports that its rules leave alone. Of a range that is the first.
func (p *Pod) ExcludedPorts() []uint16 {
	var out []uint16
	if p.rules != nil {
		for _, r := range p.rules.OutboundPortsExclude {
			out = append(out, r.First)
		}
	}
	return out
}

// ExcludedRanges are the addresses that its rules leave alone.
func (p *Pod) ExcludedRanges() []netip.Prefix {
	if p.rules == nil {
		return nil
	}
	return p.rules.OutboundExclude
}

// exemption says what keeps a TCP connection from being caught, in words; "" where nothing is known to.
func (p *Pod) exemption(r verify.Result) string {
	if p == nil {
		return ""
	}
	switch {
	case p.hostNetwork:
		return p.Key.String() + ": spec.hostNetwork"
	case !p.proxy:
		return p.Key.String() + ", which has no proxy,"
	case p.User == proxyID:
		return fmt.Sprintf("user %d, which is the proxy's,", proxyID)
	}
	what, value := p.findException(r)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("%s=%q of %s", what, value, p.Key)
}

// findException gives the annotation that keeps a TCP connection from being caught, and its value.
func (p *Pod) findException(r verify.Result) (name, value string) {
	d, err := policy.ParseDestination(r.URL)
	if err != nil || p.rules == nil {
		if p.annotations[annotation.SidecarInterceptionMode.Name] == "NONE" {
			return annotation.SidecarInterceptionMode.Name, "NONE"
		}
		return "", ""
	}
	of := func(a annotation.Instance) (string, string) { return a.Name, p.annotations[a.Name] }
	for _, port := range p.rules.OutboundPortsExclude {
		if uint32(port.First) <= d.Port && d.Port <= uint32(port.Last) {
			return of(annotation.SidecarTrafficExcludeOutboundPorts)
		}
	}
	addr, err := netip.ParseAddr(d.Host)
	if err != nil {
		return "", ""
	}
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	switch {
	case in(p.rules.OutboundExclude):
		return of(annotation.SidecarTrafficExcludeOutboundIPRanges)
	case !p.rules.OutboundRanges.All && !in(p.rules.OutboundRanges.List):
		return of(annotation.SidecarTrafficIncludeOutboundIPRanges)
	case len(p.rules.ExcludeInterfaces) > 0:
		return of(annotation.SidecarTrafficExcludeInterfaces)
	}
	return "", ""
}

// fixCapture says what to write so that a TCP connection is caught.
func (p *Pod) fixCapture(r verify.Result) string {
	if p == nil {
		return ""
	}
	switch {
	case p.hostNetwork:
		return "take spec.hostNetwork away: nothing catches what is sent from the node's network"
	case !p.proxy:
		return fmt.Sprintf("let it have a proxy: kubectl label namespace %s istio-injection=enabled, and create its pods anew", p.Namespace)
	case p.User == proxyID:
		return fmt.Sprintf("let no container run as user or group %d; the node guard holds those that do: nodeGuard.enabled=true in the chart's values", proxyID)
	}
	name, value := p.findException(r)
	setting := name[strings.LastIndex(name, "/")+1:]
	switch {
	case name == "":
		return ""
	case p.annotations[name] == "":
		return fmt.Sprintf("take it out of injector.settings.redirect.%s in the chart's values, and create the pods anew", setting)
	}
	return fmt.Sprintf("remove the annotation %s: %q from the pod's template, and create its pods anew; register what it needs with a ServiceEntry", name, value)
}
