package compress

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/cespare/xxhash/v2"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/metadata"
)

// A resource's version says nothing that its message does not say, and is what compresses least: an agent makes it itself.

// VersionSize is how many bytes a version has.
const VersionSize = 16

// Version is that of a resource with such a message: 16 hexadecimal digits of its hash.
func Version(message []byte) string {
	var text [VersionSize]byte
	PutVersion(text[:], message)
	return string(text[:])
}

// PutVersion writes it into VersionSize bytes.
func PutVersion(to, message []byte) {
	var sum [VersionSize / 2]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(message))
	hex.Encode(to, sum[:])
}

// bare is how a client says that of compressed resources it needs no versions.
const bare = "unversioned"

// Form is how a client reads what is compressed.
type Form int

// The forms: not at all, as it is otherwise, and without versions.
const (
	None Form = iota
	Whole
	Bare
)

// Wanted says what the client of a stream reads.
func Wanted(ctx context.Context) Form {
	said := metadata.ValueFromIncomingContext(ctx, header)
	switch {
	case !slices.Contains(said, format):
		return None
	case slices.Contains(said, bare):
		return Bare
	default:
		return Whole
	}
}

// Want says so, for the streams that a client opens with the context.
func Want(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, header, format, header, bare)
}

// addVersions gives resources those that they came without.
func addVersions(r *discovery.DeltaDiscoveryResponse) {
	for _, one := range r.GetResources() {
		if one.GetVersion() == "" {
			one.Version = Version(one.GetResource().GetValue())
		}
	}
}
