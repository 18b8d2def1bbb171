package inject

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"istio.io/api/annotation"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// Ports of the proxy.
const (
	outboundPort = 15001
	inboundPort  = 15006
	StatusPort   = redirect.StatusPort
	ReadyPort    = redirect.ReadyPort
	StatsPort    = redirect.StatsPort
)

// blockQUIC is the init step's flag that refuses UDP 443.
const blockQUIC = "--block-quic"

// proxyID is the user and group that traffic is not caught of.
const proxyID = 1337

// redirectRules are the annotations about which traffic is caught, each with the setting that it overrides and the
// long name of istio-init's flag.
var redirectRules = []struct {
	annotation, setting, flag string
	value                     func(*Redirect) *string
	fix                       string
	bypass                    string // what the warning says when it lets traffic leave uncaught
}{
	{annotation.SidecarTrafficIncludeOutboundIPRanges.Name, "includeOutboundIPRanges", "istio-service-cidr",
		func(r *Redirect) *string { return &r.IncludeOutboundIPRanges }, `write "*", or ranges as in "10.0.0.0/8,2001:db8::/32"`, "only these addresses are caught"},
	{annotation.SidecarTrafficExcludeOutboundIPRanges.Name, "excludeOutboundIPRanges", "istio-service-exclude-cidr",
		func(r *Redirect) *string { return &r.ExcludeOutboundIPRanges }, `write ranges, as in "10.0.0.0/8,2001:db8::/32"`, "these addresses are not caught"},
	{annotation.SidecarTrafficIncludeOutboundPorts.Name, "includeOutboundPorts", "istio-outbound-ports",
		func(r *Redirect) *string { return &r.IncludeOutboundPorts }, `write ports, as in "80,8000:8080"`, ""},
	{annotation.SidecarTrafficExcludeOutboundPorts.Name, "excludeOutboundPorts", "istio-local-outbound-ports-exclude",
		func(r *Redirect) *string { return &r.ExcludeOutboundPorts }, `write ports, as in "80,8000:8080"`, "these ports are not caught"},
	{annotation.SidecarTrafficIncludeInboundPorts.Name, "includeInboundPorts", "istio-inbound-ports",
		func(r *Redirect) *string { return &r.IncludeInboundPorts }, `write "*", or ports as in "80,8000:8080"`, ""},
	{annotation.SidecarTrafficExcludeInboundPorts.Name, "excludeInboundPorts", "istio-local-exclude-ports",
		func(r *Redirect) *string { return &r.ExcludeInboundPorts }, `write ports, as in "80,8000:8080"`, ""},
	{annotation.SidecarTrafficExcludeInterfaces.Name, "excludeInterfaces", "istio-exclude-interfaces",
		func(r *Redirect) *string { return &r.ExcludeInterfaces }, `write interfaces' names, as in "net1,net2"`, "traffic of these interfaces is not caught"},
	{annotation.SidecarTrafficKubevirtInterfaces.Name, "virtualInterfaces", "kube-virt-interfaces",
		func(r *Redirect) *string { return &r.VirtualInterfaces }, `write interfaces' names, as in "docker0"`, ""},
	{annotation.IoIstioRerouteVirtualInterfaces.Name, "virtualInterfaces", "kube-virt-interfaces",
		func(r *Redirect) *string { return &r.VirtualInterfaces }, `write interfaces' names, as in "docker0"`, ""},
}

// redirectAnnotations reads the pod's choice, and warns where traffic may leave undecided and unrecorded.
func (r *reader) redirectAnnotations(to *Redirect) {
	for _, rule := range redirectRules {
		value, ok := r.get(rule.annotation)
		if !ok {
			continue
		}
		if weakens := rule.bypass != "" && value != *rule.value(to) && value != "*" && (value != "" || rule.setting == "includeOutboundIPRanges"); weakens && !r.permits(rule.setting) {
			r.annotationNotPermitted(rule.annotation, value, rule.setting, "lets traffic around the proxy")
			continue
		}
		*rule.value(to) = value
		if rule.bypass != "" && value != "" && value != "*" || rule.setting == "includeOutboundIPRanges" && value == "" {
			r.warn("annotation %q: %q: %s; what is not caught is neither decided nor recorded by the proxy", rule.annotation, value, rule.bypass)
		}
	}
}

// redirection holds the values to what the init step takes, and gives its arguments.
func (r *reader) redirection(to Redirect) []string {
	if to.Mode != interceptRedirect && to.Mode != interceptNone {
		r.mistakes = append(r.mistakes, Mistake{Field: "redirect.mode", Value: to.Mode, Problem: "is no way to catch traffic", Fix: "write REDIRECT or NONE"})
	}
	own := fmt.Sprintf("%d,%d,%d", StatsPort, ReadyPort, StatusPort)
	if to.ExcludeInboundPorts != "" {
		own += "," + to.ExcludeInboundPorts
	}
	settings := redirect.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	settings.ServiceCIDR, settings.ServiceExcludeCIDR = to.IncludeOutboundIPRanges, to.ExcludeOutboundIPRanges
	settings.OutboundPorts, settings.OutboundPortsExclude = to.IncludeOutboundPorts, to.ExcludeOutboundPorts
	settings.InboundPorts, settings.LocalExcludePorts = to.IncludeInboundPorts, own
	settings.ExcludeInterfaces, settings.VirtualInterfaces, settings.BlockQUIC = to.ExcludeInterfaces, to.VirtualInterfaces, to.blocksQUIC()
	if _, err := settings.Options(false); err != nil {
		r.redirectMistakes(to, err)
	}
	args := []string{
		"init", "-p", fmt.Sprint(outboundPort), "-z", fmt.Sprint(inboundPort), "-u", fmt.Sprint(proxyID), "-m", interceptRedirect,
		"-i", to.IncludeOutboundIPRanges, "-x", to.ExcludeOutboundIPRanges, "-b", to.IncludeInboundPorts, "-d", own,
	}
	for _, more := range [][2]string{{"-q", to.IncludeOutboundPorts}, {"-o", to.ExcludeOutboundPorts}, {"-c", to.ExcludeInterfaces}, {"-k", to.VirtualInterfaces}} {
		if more[1] != "" {
			args = append(args, more[0], more[1])
		}
	}
	if to.blocksQUIC() {
		args = append(args, blockQUIC)
	}
	return args
}

// redirectMistakes says the init step's errors in the words of who wrote the values.
func (r *reader) redirectMistakes(to Redirect, err error) {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		r.mistakes = append(r.mistakes, Mistake{Field: "redirect", Problem: err.Error(), Fix: "mend the settings"})
		return
	}
	for _, err := range all.Unwrap() {
		var flag *redirect.FlagError
		if !errors.As(err, &flag) {
			continue
		}
		r.mistakes = append(r.mistakes, r.redirectMistake(to, flag)...)
	}
}

// redirectMistake names the annotation that gave the value, of several with one meaning the one that the pod has, or else
// the setting.
func (r *reader) redirectMistake(to Redirect, flag *redirect.FlagError) []Mistake {
	var found []Mistake
	for _, rule := range redirectRules {
		if rule.flag != flag.Flag {
			continue
		}
		m := Mistake{Field: "redirect." + rule.setting, Value: *rule.value(&to), Problem: flag.Err.Error(), Fix: rule.fix}
		if _, ok := r.annotations[rule.annotation]; ok {
			m.Field = fmt.Sprintf("annotation %q", rule.annotation)
			return []Mistake{m}
		}
		found = []Mistake{m}
	}
	return found
}
