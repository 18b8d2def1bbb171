package registry

import (
	"strings"

	"github.com/sallyport/sallyport/config"
)

// SeenAlike says whether workloads of a namespace see in a host, whose registrations are given, what everybody sees: nothing that is
// known of it depends on who asks. It may say no where they do: it is asked for all hosts of a mesh.
func (s *Snapshot) SeenAlike(host string, list []*Service, ns string) bool {
	if len(list) != 1 {
		return false
	}
	svc := list[0]
	if svc.Namespace == ns || !svc.ExportTo.All || (svc.Source.Kind != config.KindService && !strings.Contains(host, ".")) {
		return false
	}
	if _, other := s.made[ns][host]; other {
		return false
	}
	return !s.sharesNames(svc) && !s.sharesAddresses(svc) && !s.ruled(host) && !s.Led(host)
}

// sharesNames says whether patterns cover a service's host, or others have, or may have, its other names.
func (s *Snapshot) sharesNames(svc *Service) bool {
	if len(s.Patterns(svc.Host)) > 0 {
		return true
	}
	if aliases, _ := s.aliasesOf.Get(svc.Host); len(aliases) > 0 {
		return true
	}
	if svc.Source.Kind != config.KindService {
		return false
	}
	short := svc.Source.Name + "." + svc.Source.Namespace
	return svc.Headless() || len(s.Services(short)) > 0 || len(s.Services(short+".svc")) > 0
}

// sharesAddresses says whether others wrote one of a service's addresses, too.
func (s *Snapshot) sharesAddresses(svc *Service) bool {
	for _, a := range svc.Addresses {
		if list, _ := s.written.Get(a.Addr()); len(list) > 1 {
			return true
		}
	}
	return false
}

// ruled says whether some DestinationRule covers a host.
func (s *Snapshot) ruled(host string) bool {
	if s.rules.Len() == 0 {
		return false
	}
	for candidate := tailOf(host); candidate != ""; candidate = widerRule(candidate) {
		if list, _ := s.rules.Get(candidate); len(list) > 0 {
			return true
		}
	}
	return false
}
