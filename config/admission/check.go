package admission

import (
	"cmp"
	"slices"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// Check judges all objects together, at this moment. It reports as warnings what can be applied and does not do what it seems to,
// and as errors what proxies do not do at all, given the others and the mesh's settings, or what these do not take: proxies close
// the host instead, or go by the rest of the object.
// It does not repeat what Validate says of each object; objects that Validate refuses may be among them, so that
// their faults are not reported a second time as something missing. The order of objs does not matter, but for
// objects of the same key: the first counts.
//
// Where the answer depends on objects that the input may just not hold (Namespaces, Services, Gateways), a missing
// one is reported only if the input has others of its kind.
func Check(objs []config.Object, cfg mesh.Config) []Finding { return CheckAt(objs, cfg, time.Now()) }

// CheckAt is Check at another moment.
func CheckAt(objs []config.Object, cfg mesh.Config, now time.Time) []Finding {
	return check(objs, cfg, now, func(config.Key) bool { return true })
}

// CheckOf is what Check says of one of the objects, at its cost and that of a look at the others.
func CheckOf(objs []config.Object, cfg mesh.Config, key config.Key) []Finding {
	findings := check(objs, cfg, time.Now(), func(of config.Key) bool {
		return of == key || of.Kind == key.Kind && key.Kind == config.KindRequestAuthentication // whose sets of keys are counted together
	})
	return slices.DeleteFunc(findings, func(f Finding) bool { return f.Key != key })
}

// check is Check with what is said of single objects for those that are asked about alone.
func check(objs []config.Object, cfg mesh.Config, now time.Time, asked func(config.Key) bool) []Finding {
	w, findings := survey(objs, cfg)
	w.now = now
	for i := range w.objects {
		if asked(w.objects[i].Key) {
			findings = append(findings, w.about(&w.objects[i])...)
		}
	}
	findings = append(findings, w.judgePolicies()...)
	for _, e := range w.entries {
		if !asked(e.object.Key) {
			continue
		}
		r := &report{of: e.object}
		w.checkOwnHost(r, e)
		w.checkExport(r, e)
		w.checkTables(r, e)
		findings = append(findings, r.findings...)
	}
	findings = append(findings, w.conflicts()...)
	findings = append(findings, w.sharedAddresses()...)
	findings = append(findings, w.secondRoutes()...)
	findings = append(findings, w.secondChosen()...)
	findings = append(findings, w.severalRules()...)
	findings = append(findings, w.defaultGateway()...)
	findings = append(findings, w.farEnds()...)
	findings = append(findings, w.http3()...)
	findings = append(findings, w.ignoredSettings()...)
	Sort(findings)
	return findings
}

// about is what is said of one object among the others, but for EgressPolicies.
func (w *world) about(o *config.Object) []Finding {
	r := &report{of: *o}
	switch spec := o.Spec.(type) {
	case *networking.ServiceEntry:
		w.checkPlaintext(r, spec)
		w.checkTCPPorts(r, spec)
		w.checkShortNames(r, spec)
		w.checkNamespaces(r, "spec.exportTo", spec.ExportTo)
		w.checkGatewayService(r)
		w.judgeEntryFronted(r, spec)
		w.checkSomebodySelected(r, spec)
		w.checkEndpointNetworks(r, spec)
		checkMadeUp(r, spec)
	case *corev1.Namespace:
		w.checkGatewayService(r)
		w.judgeWaypointThere(r)
	case *corev1.Pod:
		w.judgePodFronted(r, spec)
	case *corev1.Service:
		checkBoundPorts(r, spec)
		w.checkAffinity(r, spec)
		w.checkAlias(r, spec)
		w.checkServicePorts(r, spec)
		w.checkNamedTargets(r, spec)
		w.checkServiceExports(r)
		w.judgeFronted(r, spec)
		w.judgeIngressed(r, spec)
	case *discoveryv1.EndpointSlice:
		w.checkSlice(r, spec)
	case *networking.WorkloadEntry:
		w.checkWorkload(r, spec)
	case *networking.DestinationRule:
		w.checkRuleHost(r, spec)
		w.checkRuleTLS(r, spec)
		w.checkRuleExit(r, spec)
		if w.checkFollowed(r, spec) {
			w.checkHiddenTLS(r, spec)
			w.checkHashed(r, spec)
			w.checkUnchosen(r, spec)
		}
		w.checkRuleSubsets(r, spec)
		w.checkCrowdedRule(r, spec)
		w.checkCredential(r, spec)
		w.checkNamespaces(r, "spec.exportTo", spec.ExportTo)
	case *networking.VirtualService:
		w.checkGateways(r, spec)
		w.checkBound(r, spec)
		w.checkNamesHad(r, spec)
		w.checkRouteTokens(r, spec)
		w.checkSubsets(r, spec)
		w.checkDelegates(r, spec)
		w.checkCrowded(r, spec)
		w.checkCrowdedGateways(r, spec)
		w.checkRouteHosts(r, spec)
		w.judgeRoutesOfFronted(r, spec)
		w.checkDestinations(r, spec)
		w.checkRoutePorts(r, spec)
		w.checkAuthorities(r, spec)
		w.checkDeadEnds(r, spec)
		w.checkNamespaces(r, "spec.exportTo", spec.ExportTo)
	case *security.PeerAuthentication:
		w.checkMutualTLS(r, spec)
		w.checkRootSelector(r, spec)
		w.checkPortLevels(r, spec)
	case *security.AuthorizationPolicy:
		w.judgeAuthorization(r, spec)
	case *security.RequestAuthentication:
		w.judgeTokens(r, spec)
	case *networking.Sidecar:
		w.checkHidden(r, spec)
		w.checkImports(r, spec)
		w.checkIngress(r, spec)
	}
	w.checkNobodySelected(r)
	return r.findings
}

// Judged are the kinds of which CheckJudged tells: what is said of them follows from others, and their statuses have room for it.
var Judged = []config.Kind{
	config.KindEgressPolicy, config.KindVirtualService, config.KindDestinationRule, config.KindAuthorizationPolicy, config.KindPeerAuthentication, config.KindRequestAuthentication,
}

// JudgedBy are the kinds of the objects that it looks at.
var JudgedBy = append([]config.Kind{
	config.KindServiceEntry, config.KindService, config.KindNamespace, config.KindPod, config.KindWorkloadEntry, config.KindGateway, config.KindSidecar,
	config.KindKubeGateway, config.KindGatewayClass,
}, Judged...)

// CheckJudged is CheckAt for what is said of objects of the kinds Judged, at their cost.
func CheckJudged(objs []config.Object, cfg mesh.Config, now time.Time) []Finding {
	w, _ := survey(objs, cfg)
	w.now = now
	findings := slices.Concat(w.judgePolicies(), w.secondRoutes(), w.severalRules())
	for i := range w.objects {
		if o := &w.objects[i]; slices.Contains(Judged, o.Kind) {
			findings = append(findings, w.about(o)...)
		}
	}
	Sort(findings)
	return findings
}

// Duplicate is what is said of an object that another one of the same key hides.
func Duplicate(hidden, used config.Object) Finding {
	r := &report{of: hidden}
	r.warn("metadata.name", hidden.Name, "the object is there twice; the one at "+used.Origin+" is used, this one is not", "remove one of the two")
	return r.findings[0]
}

// sorted returns the objects by key without those that an earlier one hides, and findings about these.
func sorted(objs []config.Object) ([]config.Object, []Finding) {
	all := slices.Clone(objs)
	slices.SortStableFunc(all, func(a, b config.Object) int {
		return cmp.Or(a.Key.Compare(b.Key), 0)
	})
	var findings []Finding
	kept := all[:0]
	for _, o := range all {
		if n := len(kept); n > 0 && kept[n-1].Key == o.Key {
			findings = append(findings, Duplicate(o, kept[n-1]))
			continue
		}
		kept = append(kept, o)
	}
	return kept, findings
}
