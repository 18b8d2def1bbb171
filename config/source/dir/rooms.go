package dir

import (
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// What reading a file takes is some hundred times what stays of it. Of many files at once the few small things that stay would lie one by one all over what reading
// has taken, around which memory cannot be given back. So they are moved together (docs/adr/0171-what-stays-of-a-file-is-moved-together.md).

const (
	// roomFor is for how many objects room is made at once: a room lasts as long as any in it.
	roomFor = 128
	// readAtOnce is how many files are read before what stays of them is moved.
	readAtOnce = 8 * roomFor
)

// rooms is where what stays lies together, of many files that are read at once. It is for one goroutine; a nil one leaves everything where it is.
type rooms struct {
	files    []file
	objects  []config.Object
	held     []*config.Object
	services []networking.ServiceEntry
	hosts    []string
}

// take gives the first n places of a room, or of a new one where there are too few.
func take[T any](room *[]T, n int) []T {
	if len(*room) < n {
		*room = make([]T, max(n, roomFor))
	}
	out := (*room)[:n:n]
	*room = (*room)[n:]
	return out
}

// file makes room for what is known of a file.
func (r *rooms) file() *file {
	if r == nil {
		return &file{}
	}
	return &take(&r.files, 1)[0]
}

// contents moves a file's list of objects.
func (r *rooms) contents(list contents) contents {
	if r == nil {
		return list
	}
	out := take(&r.held, len(list))
	copy(out, list)
	return out
}

// object moves an object that nobody else has yet, which was read from a file; name is the file's as findings show it. What the object is called and the hosts that it is
// about are one text, and where it is alone in its file, the file's path is in that, too, and is given again.
func (r *rooms) object(path, name string, o config.Object, alone bool) (moved *config.Object, file string) {
	if r == nil {
		return &o, path
	}
	where, begin := o.Origin, 0 // what of the text is before the object's name, and where in it its origin begins
	if line, is := strings.CutPrefix(o.Origin, name); is && alone && strings.HasSuffix(path, name) {
		where, begin = path+line, len(path)-len(name)
	}
	entry, _ := o.Spec.(*networking.ServiceEntry)
	whole := strings.Join(append([]string{where, o.Name, o.Revision}, entry.GetHosts()...), "")
	if file = path; begin > 0 {
		file = whole[:len(path)]
	}
	text := pieces{whole[len(where):]}
	moved = &take(&r.objects, 1)[0]
	*moved = o
	moved.Origin, moved.Name, moved.Revision = whole[begin:len(where)], text.next(o.Name), text.next(o.Revision)
	if entry != nil {
		moved.Spec = r.entry(entry, &text)
	}
	return moved, file
}

// pieces is a text that is cut into those that it was put together from.
type pieces struct{ rest string }

func (p *pieces) next(piece string) string {
	out := p.rest[:len(piece)]
	p.rest = p.rest[len(piece):]
	return out
}

// entry moves a ServiceEntry, of which the text has the hosts. Its ports stay what it shares with others.
func (r *rooms) entry(e *networking.ServiceEntry, text *pieces) *networking.ServiceEntry {
	moved := &take(&r.services, 1)[0]
	hosts, ports := e.Hosts, e.Ports
	e.Hosts, e.Ports = nil, nil
	proto.Merge(moved, e)
	e.Hosts, e.Ports = hosts, ports
	if moved.Ports = ports; len(hosts) > 0 {
		moved.Hosts = take(&r.hosts, len(hosts))
	}
	for i, host := range hosts {
		moved.Hosts[i] = text.next(host)
	}
	return moved
}
