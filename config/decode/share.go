package decode

import (
	"encoding/binary"
	"sync"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// Of many thousand objects most have the same kind, one of few namespaces, and, as ServiceEntries, the same ports, which are half of what is kept of one. What is
// read shares those. Objects are immutable, so nobody can tell.

const (
	// mostShared is how many different texts, and lists of ports, are known again at a time.
	mostShared = 1 << 10
	// longestShared is how many ports a list has at most that is known again.
	longestShared = 8
)

var shared alike

// alike gives of what is equal one, mostly. Any goroutine may use it; the zero value is ready.
type alike struct {
	mu    sync.Mutex
	texts map[string]string
	ports map[string][]*networking.ServicePort // by portsKey
}

// share has an object share what it has alike with others.
func (a *alike) share(o *config.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o.Kind, o.Namespace = config.Kind(same(&a.texts, string(o.Kind), string(o.Kind))), same(&a.texts, o.Namespace, o.Namespace)
	if entry, ok := o.Spec.(*networking.ServiceEntry); ok && len(entry.Ports) > 0 && len(entry.Ports) <= longestShared {
		entry.Ports = same(&a.ports, portsKey(entry.Ports), entry.Ports)
	}
}

// same gives what is known by a key, or makes the value known.
func same[V any](known *map[string]V, key string, v V) V {
	if was, ok := (*known)[key]; ok {
		return was
	}
	if *known == nil || len(*known) >= mostShared {
		*known = map[string]V{}
	}
	(*known)[key] = v
	return v
}

// portsKey is the same for lists of equal ports only.
func portsKey(list []*networking.ServicePort) string {
	var b []byte
	for _, p := range list {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.GetNumber())), uint64(p.GetTargetPort()))
		for _, text := range [...]string{p.GetName(), p.GetProtocol()} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return string(b)
}
