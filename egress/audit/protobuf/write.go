package protobuf

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// AppendRecord appends a record as one field of a Batch: batches that stand behind each other are one batch. Texts that are no UTF-8, which
// clients may write into a request, are mended: a reader that checks would refuse all of the batch.
func AppendRecord(dst []byte, r *record.Record) []byte {
	dst = binary.AppendUvarint(dst, BatchRecord)
	at := len(dst)
	dst = append(dst, 0, 0) // room for the usual size
	dst = appendFields(dst, r)
	size := len(dst) - at - 2
	if size < 1<<14 { // a varint may have bits that say nothing
		dst[at], dst[at+1] = byte(size)|0x80, byte(size>>7)
		return dst
	}
	body := string(dst[at+2:])
	dst = binary.AppendUvarint(dst[:at], uint64(size))
	return append(dst, body...)
}

// appendFields appends what is in a record; what is empty is left out.
func appendFields(b []byte, r *record.Record) []byte {
	b = text(b, proxy, r.Proxy)
	b = number(b, epoch, r.Epoch)
	b = number(b, seq, r.Seq)
	b = number(b, seconds, uint64(r.Time.Unix()))
	b = number(b, nanos, uint64(r.Time.Nanosecond()))
	b = text(b, class, string(r.Class))
	b = text(b, verdict, string(r.Verdict))
	b = text(b, path, r.Path)
	b = text(b, reporter, r.Reporter)
	b = text(b, direction, r.Direction)
	b = workload(b, principal, &r.Workload)
	b = text(b, source, r.Source)
	b = text(b, claim, r.Claim)
	b = text(b, forwardedFor, r.ForwardedFor)
	b = text(b, host, r.Host)
	b = number(b, port, uint64(r.Port))
	b = text(b, sni, r.SNI)
	b = text(b, authority, r.Authority)
	b = text(b, dialled, r.Dialled)
	b = text(b, destination, r.Destination)
	b = workload(b, destinationPrincipal, &r.DestinationWorkload)
	b = text(b, protocol, r.Protocol)
	b = text(b, method, r.Method)
	b = text(b, urlPath, r.URLPath)
	b = number(b, status, uint64(r.Status))
	b = text(b, cluster, r.Cluster)
	b = text(b, route, r.Route)
	b = object(b, decidedByKind, &r.DecidedBy)
	b = text(b, reason, r.Reason)
	b = number(b, bytesSent, r.BytesSent)
	b = number(b, bytesReceived, r.BytesReceived)
	b = number(b, durationNanos, uint64(r.Duration))
	b = list(b, flags, r.Flags)
	b = number(b, lost, r.Count)
	b = list(b, cut, r.Cut)
	b = object(b, allowedByKind, &r.AllowedBy)
	b = object(b, wouldDenyKind, &r.WouldDeny)
	b = text(b, actor, r.Actor)
	b = text(b, actorBy, r.ActorBy)
	return text(b, action, r.Action)
}

// workload appends five fields that have the numbers from first on.
func workload(b []byte, first uint64, w *record.Workload) []byte {
	for i, s := range [...]string{w.Principal, w.Namespace, w.ServiceAccount, w.Name, w.Labels} {
		b = text(b, first+uint64(i)<<3, s)
	}
	return b
}

// object appends five fields that have the numbers from first on.
func object(b []byte, first uint64, o *record.Object) []byte {
	if o.IsZero() {
		return b
	}
	b = text(b, first, o.Kind)
	b = text(b, first+1<<3, o.Namespace)
	b = text(b, first+2<<3, o.Name)
	b = text(b, first+3<<3, o.Rule)
	return text(b, first+4<<3, o.Revision)
}

func number(b []byte, tag, n uint64) []byte {
	if n == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, tag), n)
}

func text(b []byte, tag uint64, s string) []byte {
	if s == "" {
		return b
	}
	return element(b, tag, s)
}

func list(b []byte, tag uint64, all []string) []byte {
	for _, s := range all {
		b = element(b, tag, s)
	}
	return b
}

func element(b []byte, tag uint64, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, tag), uint64(len(s)))
	return append(b, s...)
}
