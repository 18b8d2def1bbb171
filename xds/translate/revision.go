package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// What decided has a revision, which its records carry (accesslog.TagRevision). It is in the row, so that an edit makes no
// cluster anew whose connections are shared; of opaque ports, where no row is seen, it is in the cluster. See docs/adr/0021-the-general-record.md.

// revise notes the revision of the object behind a row. Answers say it themselves.
func revise(r *routev3.Route, revision string) *routev3.Route {
	if revision == "" || IsAnswer(r) || r.GetMetadata().GetFilterMetadata()["sallyport"] != nil {
		return r
	}
	if r.Metadata == nil {
		r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
	}
	r.Metadata.FilterMetadata["sallyport"] = fields("revision", revision)
	return r
}

// reviseOpaque notes it in the metadata of the cluster of a port whose bytes are not looked at.
func reviseOpaque(md *corev3.Metadata, svc *registry.Service, port registry.Port) *corev3.Metadata {
	if revision := svc.RevisionOf(port); revision != "" && !port.Protocol.IsHTTP() {
		md.FilterMetadata["sallyport"].Fields["revision"] = structpb.NewStringValue(revision)
	}
	return md
}

// restRevision is that of what decides about what nobody registered. It covers that alone, and not the whole object: whatever
// else is edited in a Sidecar or in the mesh's settings, listeners and rows stay as they are.
func restRevision(r resolve.Rest) string { return unregisteredRevision(configOf(r.By), r.AllowAny) }

func unregisteredRevision(policy string, allowAny bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00outboundTrafficPolicy\x00%t", policy, allowAny))
	return hex.EncodeToString(sum[:])[:accesslog.RevisionDigits]
}
