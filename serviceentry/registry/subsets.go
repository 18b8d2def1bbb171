package registry

// What the subsets of a DestinationRule come to with all that an entry registers: a cluster for each of them, and one for all endpoints, for each host at each port; and each of them is
// told the entry's endpoints.
const (
	MostSubsetClusters  = 65_536
	MostSubsetEndpoints = 1 << 20
)

// FewerSubsets is what to do where they come to more.
const FewerSubsets = "write fewer subsets, or the hosts and ports into several ServiceEntries"

// TooManySubsets says of a rule's subsets, and what an entry registers, to how many clusters and endpoints they come, and whether that is more than is made.
func TooManySubsets(subsets, hosts, ports, endpoints int) (comesTo int, tooMany bool) {
	comesTo = (subsets + 1) * hosts * ports
	return max(comesTo, comesTo*endpoints), comesTo > MostSubsetClusters || comesTo*endpoints > MostSubsetEndpoints
}

// countedFor is the rule as it counts for a service: without its subsets where there would be more of them than is made, so that what leads to one of them goes nowhere. At a
// gateway no subsets are told apart, and what leaves there stays as it is.
func (r *DestinationRule) countedFor(svc *Service) *DestinationRule {
	if r == nil || len(r.Subsets) == 0 || !svc.Exit.IsZero() {
		return r
	}
	n, tooMany := TooManySubsets(len(r.Subsets), 1+int(svc.Beside), len(svc.Ports), len(svc.Endpoints))
	if !tooMany {
		return r
	}
	out := *r
	out.Subsets, out.Uncounted = nil, n
	return &out
}
