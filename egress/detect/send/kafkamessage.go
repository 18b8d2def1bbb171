package send

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Headers of a message.
const (
	idHeader      = "uid"       // metadata.uid: the same in copies of a record
	classHeader   = "class_uid" // OCSF's
	contentHeader = "content-type"
)

// frame is what a batch with one message has around its key, its value and its headers, at most.
const frame = 160

// message writes a record that fits into a batch of so many bytes. Where it does not as it is, its texts are cut, and where that is not
// enough, the message says only that a record is missing: then it is not whole.
func message(r *record.Record, limit int) (m *kgo.Record, whole bool, err error) {
	key := cmp.Or(r.Workload.Principal, r.Proxy)
	event := ocsf.FromRecord(*r)
	headers := []kgo.RecordHeader{
		{Key: idHeader, Value: []byte(event.Metadata.UID)}, {Key: classHeader, Value: []byte(strconv.Itoa(event.ClassUID))}, {Key: contentHeader, Value: []byte("application/json")},
	}
	room := limit - frame - len(key)
	for _, h := range headers {
		room -= len(h.Key) + len(h.Value)
	}
	value, whole, err := fit(r, event, room)
	if err != nil {
		return nil, false, err
	}
	// Its time is that of sending: brokers refuse what is too far in the future, and delete by it, and the time of a record is what a proxy says.
	return &kgo.Record{Key: []byte(key), Value: value, Headers: headers}, whole, nil
}

// fit writes an event of a record in so many bytes.
func fit(r *record.Record, event ocsf.Event, room int) (value []byte, whole bool, err error) {
	if value, err = json.Marshal(event); err != nil || len(value) <= room {
		return value, err == nil, err
	}
	short := *r
	short.Cut = slices.Clone(r.Cut)
	for most := r.Texts() * 3 / 4; most >= leastTexts; most = most * 3 / 4 {
		short.Shorten(most)
		if value, err = json.Marshal(ocsf.FromRecord(short)); err != nil || len(value) <= room {
			return value, err == nil, err
		}
	}
	gap := missing(r, "too large for the topic")
	if value, err = json.Marshal(ocsf.FromRecord(gap)); err == nil && len(value) > room {
		err = fmt.Errorf("the topic's max.message.bytes leaves %d bytes for an event, in which none fits: set it to 64 KiB or more", max(room, 0))
	}
	return value, false, err
}

// leastTexts is how many bytes of text an event is worth to be sent with.
const leastTexts = 200
