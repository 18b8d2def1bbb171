package registry

// Of many hosts that are made at once the services would lie one by one among all that making them took, around which memory cannot be given back. So they are
// moved together.

// roomFor is for how many services room is made at once: a room lasts as long as any in it.
const roomFor = 128

// rooms is where the services of a batch's hosts lie. A nil one leaves everything where it is, which is better for few: what changes later, host by host, is
// to hold no more than was needed for all once.
type rooms struct {
	services []Service
	lists    []*Service
}

// roomsFor makes some for so many hosts, if they are many.
func roomsFor(hosts int) *rooms {
	if hosts <= roomFor {
		return nil
	}
	return &rooms{}
}

// service moves a service that nobody else has yet.
func (r *rooms) service(s *Service) *Service {
	if r == nil {
		return s
	}
	moved := &take(&r.services, 1)[0]
	*moved = *s
	return moved
}

// list moves a host's services.
func (r *rooms) list(services []*Service) []*Service {
	if r == nil {
		return services
	}
	moved := take(&r.lists, len(services))
	copy(moved, services)
	return moved
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
