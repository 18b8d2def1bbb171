package route

// MostRows is how many matches proxies are told of for one VirtualService, of all its hosts together: each at each place where it counts.
const MostRows = 1 << 18

// Closed is why nothing goes by the routes of an object.
type Closed struct {
	Why string // names the field
	Fix string
}

// Rows is how many matches proxies are told of for one host: each at each place where it counts.
func (r *Routes) Rows() (n int) {
	at := func(w Where) int { return max(len(w.Gateways), 1) }
	for i := range r.HTTP {
		for j := range r.HTTP[i].Matches {
			n += at(r.HTTP[i].Matches[j].Where)
		}
	}
	for _, list := range [...][]L4{r.TLS, r.TCP} {
		for i := range list {
			for j := range list[i].Matches {
				n += at(list[i].Matches[j].Where)
			}
		}
	}
	return n
}

// ClosedHTTPAt is one route for all requests, closed, where any of the routes counts at a place.
func (r *Routes) ClosedHTTPAt(p Scope, closed HTTP) []HTTP {
	for i := range r.HTTP {
		for j := range r.HTTP[i].Matches {
			if r.HTTP[i].Matches[j].At(p) {
				closed.Matches = []HTTPMatch{{}}
				return []HTTP{closed}
			}
		}
	}
	return nil
}

// ClosedL4At is the same of a list of routes of connections.
func ClosedL4At(list []L4, p Scope, closed L4) []L4 {
	for i := range list {
		for j := range list[i].Matches {
			if list[i].Matches[j].At(p) {
				closed.Matches = []L4Match{{}}
				return []L4{closed}
			}
		}
	}
	return nil
}
