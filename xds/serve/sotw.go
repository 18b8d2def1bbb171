package serve

import (
	"context"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/xds/resource"

	"github.com/cespare/xxhash/v2"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// listing is the resources of a type and the version that stands for all of them together. Streams that get the same share it.
type listing struct {
	fields []mem.SliceBuffer // "resources" of a DiscoveryResponse, out of what was sealed
	size   int               // bytes
	hash   *xxhash.Digest
}

func newListing() *listing { return &listing{hash: xxhash.New()} }

func (i *listing) add(r *resource.Resource) {
	field := wholeField(r.Wire())
	i.fields, i.size = append(i.fields, field), i.size+len(field)
	_, _ = i.hash.WriteString(r.Name + "\x00" + r.Version + "\x00")
}

// wholeField finds a field of a DiscoveryResponse in one of a DeltaDiscoveryResponse: there the message is in field 2
// (resource) of what is in field 2 (resources), here it is in field 2 (resources) at once.
func wholeField(wire []byte) mem.SliceBuffer {
	_, _, tag := protowire.ConsumeTag(wire)
	resource, _ := protowire.ConsumeBytes(wire[tag:])
	_, _, n := protowire.ConsumeField(resource)
	return resource[:n:n]
}

func (i *listing) appendTo(out mem.BufferSlice) mem.BufferSlice {
	out = slices.Grow(out, len(i.fields)+1)
	for n := range i.fields {
		out = append(out, &i.fields[n]) // by pointer: nothing is allocated for it
	}
	return out
}

func (i *listing) version() string { return strconv.FormatUint(i.hash.Sum64(), 16) }

// listing lists a type, once for all streams.
func (c *class) listing(t resource.Type) *listing {
	if c.all[t] == nil {
		c.all[t] = newListing()
		c.view.Walk(t, func(r *resource.Resource) bool { c.all[t].add(r); return true })
	}
	return c.all[t]
}

// answerWhole responds when the version, a hash over those of all resources in question, is not the client's.
func (s *stream) answerWhole(t resource.Type, w *watch) {
	list := newListing()
	if w.sub.IsWildcard() {
		list = s.of(t).listing(t)
	} else {
		for _, name := range w.sotw.GetResourceNames() {
			if r, ok := s.of(t).view.Get(t, name); ok {
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
	s.stats.sent(t, len(list.fields), 0)
	w.sotwOut <- &wholeResponse{request: w.sotw, out: s.out, list: list, version: version}
}

// wholeResponse answers a state-of-the-world stream: all resources of a type, or all those asked for.
type wholeResponse struct {
	request *discovery.DiscoveryRequest
	out     *outgoing // where it goes
	list    *listing
	version string
}

// GetDiscoveryResponse gives the envelope. It is called by the stream's own goroutine, right before it is sent.
func (r *wholeResponse) GetDiscoveryResponse() (*discovery.DiscoveryResponse, error) {
	r.out.next = r.list
	return &discovery.DiscoveryResponse{VersionInfo: r.version, TypeUrl: r.request.GetTypeUrl()}, nil
}

func (r *wholeResponse) GetRequest() *discovery.DiscoveryRequest { return r.request }
func (r *wholeResponse) GetVersion() (string, error)             { return r.version, nil }
func (r *wholeResponse) GetResponseVersion() string              { return r.version }
func (r *wholeResponse) GetReturnedResources() map[string]string { return map[string]string{} }
func (r *wholeResponse) GetContext() context.Context             { return context.Background() }
