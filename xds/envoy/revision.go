package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/wire"
)

// WithRevision notes the revision of the object behind a row. Answers say it themselves.
func WithRevision(r *routev3.Route, revision string) *routev3.Route {
	said := r.GetMetadata().GetFilterMetadata()["sallyport"]
	if _, has := said.GetFields()["revision"]; revision == "" || IsAnswer(r) || has {
		return r
	}
	if r.Metadata == nil {
		r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
	}
	now := fields("revision", revision)
	maps.Copy(now.Fields, said.GetFields())
	r.Metadata.FilterMetadata["sallyport"] = now
	return r
}

// UnregisteredRevision is the revision of what an object says about what nobody registered, and of nothing else in it.
func UnregisteredRevision(policy string, allowAny bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00outboundTrafficPolicy\x00%t", policy, allowAny))
	return hex.EncodeToString(sum[:])[:wire.RevisionDigits]
}
