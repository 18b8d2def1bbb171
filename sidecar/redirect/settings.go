package redirect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Settings are the flags of istio-init as they were given. [Settings.Bind] fills them.
type Settings struct {
	EnvoyPort, InboundCapturePort, InboundTunnelPort, DNSPort string
	ProxyUID, ProxyGID                                        string
	Mode, TProxyMark, TProxyTable                             string
	ServiceCIDR, ServiceExcludeCIDR                           string
	InboundPorts, LocalExcludePorts                           string
	OutboundPorts, OutboundPortsExclude                       string
	ExcludeInterfaces, VirtualInterfaces                      string
	RedirectDNS, BlockQUIC                                    bool
	IPv6                                                      string
}

// IPv6Choice is what --ipv6 asks for.
type IPv6Choice string

// The choices.
const (
	IPv6Auto IPv6Choice = "auto" // on where the namespace has IPv6
	IPv6On   IPv6Choice = "on"   // on, and an error where it cannot be
	IPv6Off  IPv6Choice = "off"
)

// IPv6Choice reads --ipv6.
func (s *Settings) IPv6Choice() (IPv6Choice, error) {
	switch c := IPv6Choice(s.IPv6); c {
	case IPv6Auto, IPv6On, IPv6Off:
		return c, nil
	}
	return "", &FlagError{Flag: flagIPv6, Value: s.IPv6, Err: errors.New("say auto, on or off")}
}

// Options checks the settings. Every error is a [*FlagError]; all of them are joined, so that one look tells everything.
// Unlike istio-init, which skips a range that it cannot read, nothing is skipped: a typing error must not open a way out.
func (s *Settings) Options(ipv6 bool) (Options, error) {
	var errs []error
	o := Options{RedirectDNS: s.RedirectDNS, BlockQUIC: s.BlockQUIC, IPv6: ipv6}
	check(&errs, &o.EnvoyPort, flagEnvoyPort, s.EnvoyPort, parsePort)
	check(&errs, &o.InboundPort, flagInboundCapturePort, s.InboundCapturePort, parsePort)
	check(&errs, &o.TunnelPort, flagInboundTunnelPort, s.InboundTunnelPort, parseOptionalPort)
	check(&errs, &o.DNSPort, flagDNSPort, s.DNSPort, parsePort)
	check(&errs, &o.UIDs, flagProxyUID, s.ProxyUID, parseIDs)
	if s.ProxyGID == "" {
		o.GIDs = o.UIDs
	} else {
		check(&errs, &o.GIDs, flagProxyGID, s.ProxyGID, parseIDs)
	}
	check(&errs, &o.Mode, flagMode, s.Mode, parseMode)
	check(&errs, &o.TProxyMark, flagTProxyMark, s.TProxyMark, parseMark)
	check(&errs, &o.TProxyTable, flagTProxyTable, s.TProxyTable, parseTable)
	check(&errs, &o.OutboundRanges, flagServiceCIDR, s.ServiceCIDR, parseRanges)
	check(&errs, &o.OutboundExclude, flagServiceExcludeCIDR, s.ServiceExcludeCIDR, parsePrefixes)
	check(&errs, &o.OutboundPorts, flagOutboundPorts, s.OutboundPorts, parsePorts)
	check(&errs, &o.OutboundPortsExclude, flagOutboundPortsExclude, s.OutboundPortsExclude, parsePorts)
	check(&errs, &o.InboundPorts, flagInboundPorts, s.InboundPorts, parsePortChoice)
	check(&errs, &o.InboundPortsExclude, flagLocalExcludePorts, s.LocalExcludePorts, parsePorts)
	check(&errs, &o.ExcludeInterfaces, flagExcludeInterfaces, s.ExcludeInterfaces, parseInterfaces)
	check(&errs, &o.VirtualInterfaces, flagVirtualInterfaces, s.VirtualInterfaces, parseInterfaces)
	if len(errs) == 0 && o.EnvoyPort == o.InboundPort {
		errs = append(errs, &FlagError{Flag: flagInboundCapturePort, Value: s.InboundCapturePort,
			Err: fmt.Errorf("is also --%s, outbound and inbound need one each", flagEnvoyPort)})
	}
	return o, errors.Join(errs...)
}

// check parses one setting into its option and notes what is wrong.
func check[T any](errs *[]error, into *T, flag, value string, parse func(string) (T, error)) {
	v, err := parse(value)
	if err != nil {
		*errs = append(*errs, &FlagError{Flag: flag, Value: value, Err: err})
		return
	}
	*into = v
}

func parseOptionalPort(value string) (uint16, error) {
	if value == "" || value == "0" {
		return 0, nil
	}
	return parsePort(value)
}

func parseMode(value string) (Mode, error) {
	switch m := Mode(strings.ToUpper(value)); m {
	case Redirect, TProxy:
		return m, nil
	case "":
		return Redirect, nil
	}
	return "", errors.New("say REDIRECT or TPROXY")
}

func parseMark(value string) (uint32, error) {
	n, err := strconv.ParseUint(value, 0, 32)
	if err != nil || n == 0 {
		return 0, errors.New("is not a packet mark (1 to 4294967295)")
	}
	if n == outboundMark {
		return 0, fmt.Errorf("%d marks packets from the proxy to its own pod, take another", outboundMark)
	}
	return uint32(n), nil
}

// parseTable refuses the kernel's own tables: default (253), main (254), local (255) and 0, which means main.
func parseTable(value string) (uint32, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 || (n >= 253 && n <= 255) {
		return 0, errors.New("is not a free route table (1 to 252, or above 255)")
	}
	return uint32(n), nil
}
