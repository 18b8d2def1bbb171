package serve

import (
	"context"
	"strconv"

	"github.com/cespare/xxhash/v2"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/translate"
)

// inventory is resources and the version that stands for all of them together.
type inventory struct {
	resources []*anypb.Any
	hash      *xxhash.Digest
}

func newInventory() *inventory { return &inventory{hash: xxhash.New()} }

func (i *inventory) add(r *translate.Resource) {
	i.resources = append(i.resources, r.Any())
	_, _ = i.hash.WriteString(r.Name + "\x00" + r.Version + "\x00")
}

func (i *inventory) version() string { return strconv.FormatUint(i.hash.Sum64(), 16) }

// inventory lists a type, once for all streams.
func (c *class) inventory(t translate.Type) *inventory {
	if c.all[t] == nil {
		c.all[t] = newInventory()
		c.view.Walk(t, func(r *translate.Resource) bool { c.all[t].add(r); return true })
	}
	return c.all[t]
}

// answerWhole responds when the version, a hash over those of all resources in question, is not the client's.
func (s *stream) answerWhole(t translate.Type, w *watch) {
	list := newInventory()
	if w.sub.IsWildcard() {
		list = s.class.inventory(t)
	} else {
		for _, name := range w.sotw.GetResourceNames() {
			if r, ok := s.class.view.Get(t, name); ok {
				list.add(r)
			}
			_, _ = list.hash.WriteString(name + "\x00")
		}
	}
	version := list.version()
	if version == w.sotw.GetVersionInfo() {
		s.stats.returned(t)
		return
	}
	if version == w.refused {
		return
	}
	s.watches[t] = nil
	s.stats.sent(t, len(list.resources), 0)
	w.sotwOut <- &wholeResponse{request: w.sotw, resources: list.resources, version: version}
}

// wholeResponse answers a state-of-the-world stream: all resources of a type, or all those asked for.
type wholeResponse struct {
	request   *discovery.DiscoveryRequest
	resources []*anypb.Any
	version   string
}

func (r *wholeResponse) GetDiscoveryResponse() (*discovery.DiscoveryResponse, error) {
	return &discovery.DiscoveryResponse{VersionInfo: r.version, TypeUrl: r.request.GetTypeUrl(), Resources: r.resources}, nil
}

func (r *wholeResponse) GetRequest() *discovery.DiscoveryRequest { return r.request }
func (r *wholeResponse) GetVersion() (string, error)             { return r.version, nil }
func (r *wholeResponse) GetResponseVersion() string              { return r.version }
func (r *wholeResponse) GetReturnedResources() map[string]string { return map[string]string{} }
func (r *wholeResponse) GetContext() context.Context             { return context.Background() }
