package digest

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

const (
	// Type is the delta xDS type (wildcard subscription): a resource is a bucket, whose name is BucketName and whose body is Encode's, or SumName.
	Type = "type.googleapis.com/sallyport.xds.v1.RowDigest"
	// SumName is the resource that says what all buckets add up to, so that one that is lost is not taken for an empty one. Its body is eight bytes, big endian:
	// the Mark of each bucket, combined by exclusive or.
	SumName = "sum"
	// Buckets is how many there are. A bucket without anything in it is not there.
	Buckets = 1 << bucketBits

	bucketBits = 11
)

// Key is what stands for a domain in a table: the domain says in which bucket, and both together what is in it.
type Key struct {
	Value  uint64
	Bucket uint16
}

// KeyOf makes the key of a domain, in lower case, or a pattern of domains.
func KeyOf(table, domain string) Key {
	return Key{Value: xxhash.Sum64String(table + "/" + domain), Bucket: uint16(xxhash.Sum64String(domain) >> (64 - bucketBits))}
}

// BucketName is the name of a bucket's resource.
func BucketName(bucket uint16) string { return strconv.FormatUint(uint64(bucket), 16) }

// bucketOf is the bucket of that name.
func bucketOf(name string) (bucket uint16, ok bool) {
	n, err := strconv.ParseUint(name, 16, 16)
	return uint16(n), err == nil && n < Buckets && BucketName(uint16(n)) == name
}

// Mark is what a bucket adds to the sum; 0 for one that is not there.
func Mark(name string, body []byte) uint64 {
	if len(body) == 0 {
		return 0
	}
	d := xxhash.New()
	_, _ = d.WriteString(name + "/")
	_, _ = d.Write(body)
	return d.Sum64()
}
