package serve

import (
	"context"
	"strconv"

	"github.com/cespare/xxhash/v2"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/translate"
)

// deltaResponse is go-control-plane's view of an answer. Its resources are shared; only the envelope is its own.
type deltaResponse struct {
	request   *discovery.DeltaDiscoveryRequest
	resources []*translate.Resource
	removed   []string
	versions  map[string]string // what a named subscription knows after it
}

func (r *deltaResponse) GetDeltaDiscoveryResponse() (*discovery.DeltaDiscoveryResponse, error) {
	out := &discovery.DeltaDiscoveryResponse{
		TypeUrl:          r.request.GetTypeUrl(),
		RemovedResources: r.removed,
		Resources:        make([]*discovery.Resource, len(r.resources)),
	}
	h := xxhash.New()
	for i, res := range r.resources {
		out.Resources[i] = &discovery.Resource{Name: res.Name, Version: res.Version, Resource: res.Any}
		_, _ = h.WriteString(res.Version)
	}
	out.SystemVersionInfo = strconv.FormatUint(h.Sum64(), 16)
	return out, nil
}

func (r *deltaResponse) GetDeltaRequest() *discovery.DeltaDiscoveryRequest { return r.request }
func (r *deltaResponse) GetSystemVersion() (string, error)                 { return "", nil }
func (r *deltaResponse) GetResponseVersion() string                        { return "" }
func (r *deltaResponse) GetNextVersionMap() map[string]string              { return r.versions }
func (r *deltaResponse) GetReturnedResources() map[string]string           { return r.versions }
func (r *deltaResponse) GetContext() context.Context                       { return context.Background() }

// wholeResponse answers a state-of-the-world stream: all resources of a type, or all those asked for.
type wholeResponse struct {
	request   *discovery.DiscoveryRequest
	resources []*translate.Resource
	version   string
}

func (r *wholeResponse) GetDiscoveryResponse() (*discovery.DiscoveryResponse, error) {
	out := &discovery.DiscoveryResponse{
		VersionInfo: r.version, TypeUrl: r.request.GetTypeUrl(), Resources: make([]*anypb.Any, len(r.resources)),
	}
	for i, res := range r.resources {
		out.Resources[i] = res.Any
	}
	return out, nil
}

func (r *wholeResponse) GetRequest() *discovery.DiscoveryRequest { return r.request }
func (r *wholeResponse) GetVersion() (string, error)             { return r.version, nil }
func (r *wholeResponse) GetResponseVersion() string              { return r.version }
func (r *wholeResponse) GetReturnedResources() map[string]string { return map[string]string{} }
func (r *wholeResponse) GetContext() context.Context             { return context.Background() }

// answerWhole responds when the version, a hash over those of all resources in question, is not the client's.
func (s *stream) answerWhole(t translate.Type, w *watch) {
	resp := &wholeResponse{request: w.sotw}
	h := xxhash.New()
	take := func(r *translate.Resource) bool {
		resp.resources = append(resp.resources, r)
		_, _ = h.WriteString(r.Name + "\x00" + r.Version + "\x00")
		return true
	}
	if w.sub.IsWildcard() {
		s.class.view.Walk(t, take)
	} else {
		for _, name := range w.sotw.GetResourceNames() {
			if r, ok := s.class.view.Get(t, name); ok {
				take(r)
			}
			_, _ = h.WriteString(name + "\x00")
		}
	}
	resp.version = strconv.FormatUint(h.Sum64(), 16)
	if resp.version == w.sotw.GetVersionInfo() {
		return
	}
	s.watches[t] = nil
	s.stats.sent(t, len(resp.resources), 0)
	w.sotwOut <- resp
}
