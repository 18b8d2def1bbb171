package secrets

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxNames bounds what one stream may ask for: Envoy asks for one or two.
const maxNames = 256

// sotwSubscription is the state of one state-of-the-world stream: every response holds all that was asked for and
// is there.
type sotwSubscription struct {
	names   []string // sorted
	nonce   uint64   // of the last response; 0 is none
	version string   // of the last response; "" asks for another response
}

func (s *sotwSubscription) request(r *discoveryv3.DiscoveryRequest) {
	if n := r.GetResponseNonce(); n != "" && n != strconv.FormatUint(s.nonce, 10) {
		return // an answer to an older response: the one to the last is on its way
	}
	names := slices.Compact(slices.Sorted(slices.Values(r.GetResourceNames())))
	names = names[:min(len(names), maxNames)]
	for _, name := range names {
		if _, asked := slices.BinarySearch(s.names, name); !asked {
			s.version = ""
		}
	}
	s.names = names
}

// response returns what to send now, nil when there is nothing new.
func (s *sotwSubscription) response(all map[string]secret) *discoveryv3.DiscoveryResponse {
	var bodies []*anypb.Any
	hash := sha256.New()
	for _, name := range s.names {
		if found, ok := all[name]; ok {
			bodies = append(bodies, found.body)
			hash.Write([]byte(found.version))
		}
	}
	version := hex.EncodeToString(hash.Sum(nil)[:16])
	if len(bodies) == 0 || version == s.version {
		return nil
	}
	s.nonce++
	s.version = version
	return &discoveryv3.DiscoveryResponse{
		VersionInfo: version, Resources: bodies, TypeUrl: secretType, Nonce: strconv.FormatUint(s.nonce, 10),
	}
}

// deltaSubscription is the state of one delta stream: every response holds what changed.
type deltaSubscription struct {
	sent  map[string]string // name asked for → version that the client has, "" is none
	nonce uint64
}

func newDeltaSubscription() *deltaSubscription {
	return &deltaSubscription{sent: map[string]string{}}
}

func (s *deltaSubscription) request(r *discoveryv3.DeltaDiscoveryRequest) {
	for _, name := range r.GetResourceNamesUnsubscribe() {
		delete(s.sent, name)
	}
	for _, name := range r.GetResourceNamesSubscribe() {
		if len(s.sent) < maxNames {
			// Asking again means wanting it again, unless a reconnecting client says what it has.
			s.sent[name] = r.GetInitialResourceVersions()[name]
		}
	}
}

// response returns what to send now, nil when there is nothing new.
func (s *deltaSubscription) response(all map[string]secret) *discoveryv3.DeltaDiscoveryResponse {
	var changed []*discoveryv3.Resource
	for _, name := range slices.Sorted(maps.Keys(s.sent)) {
		if found, ok := all[name]; ok && found.version != s.sent[name] {
			changed = append(changed, &discoveryv3.Resource{Name: name, Version: found.version, Resource: found.body})
			s.sent[name] = found.version
		}
	}
	if len(changed) == 0 {
		return nil
	}
	s.nonce++
	return &discoveryv3.DeltaDiscoveryResponse{
		Resources: changed, TypeUrl: secretType, Nonce: strconv.FormatUint(s.nonce, 10),
	}
}
