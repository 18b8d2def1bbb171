package load

import (
	"fmt"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// inUse is how many hosts a sidecar uses.
const inUse = 50

// fetching is a sidecar whose agent gives its Envoy what is used, and asks for that by name (docs/adr/0080-rows-by-name.md): names of DNS, and the digest of
// what else there is, it takes whole.
func fetching(i int) *core.Node {
	n := sidecar(i)
	n.Metadata.Fields[fetchKey] = structpb.NewStringValue("onUse")
	n.Metadata.Fields[byNameKey] = structpb.NewStringValue("true")
	return n
}

// usedRows are the rows that such a sidecar asks for.
func usedRows() (names []string) {
	for _, table := range []string{"80", "443"} {
		names = append(names, table+"/nobody.invalid")
		for i := range inUse {
			names = append(names, table+"/"+fetched(i, true).host)
		}
	}
	return names
}

// writeFetched is writeEntries, but for as many entries as a sidecar uses, and as many that it does not, which are to change: they are the root
// namespace's (see entrySteps).
func (m mesh) writeFetched(o Options) error {
	for i := range inUse {
		for _, used := range []bool{true, false} {
			if err := m.put(fetched(i, used)); err != nil {
				return err
			}
		}
	}
	o.Entries = max(o.Entries-2*inUse, 0)
	return m.writeEntries(o)
}

func fetched(i int, used bool) entry {
	name := fmt.Sprintf("idle-%d", i%inUse)
	if used {
		name = fmt.Sprintf("used-%d", i%inUse)
	}
	return entry{name: name, namespace: gatewayNamespace, host: name + ".load.example.org"}
}

// fetchedSteps are the changes of one round: an entry comes, one that the pods use changes, one that they do not, and the first one goes.
func (m mesh) fetchedSteps(round int) []step {
	comes := m.entrySteps(round)
	change := func(kind string, used bool, net int) step {
		e := fetched(round, used)
		e.address = fmt.Sprintf("203.0.%d.%d", net, 1+round/inUse%250)
		return step{kind, e.host, func() error { return m.put(e) }, nil}
	}
	return []step{comes[0], change("in use", true, 113), change("not in use", false, 114), comes[2]}
}

var fetchedGoals = []goal{
	{"first sync of one sidecar", "KiB", [2]float64{300, 0}, func(f Figures) float64 { return float64(f.SyncMost) / 1024 }},
	{"bytes to a sidecar for a change of a host that it uses", "KiB", [2]float64{8, 8}, func(f Figures) float64 { return float64(f.Bytes["in use"]) / 1024 }},
	{"for a change of one that it does not use", "KiB", [2]float64{8, 8}, func(f Figures) float64 { return float64(f.Bytes["not in use"]) / 1024 }},
	{"controller CPU for a change", "ms", [2]float64{}, func(f Figures) float64 { return milliseconds(f.ChangeCPU) }},
	{"file written → the last sidecar has it, p99", "ms", [2]float64{}, func(f Figures) float64 { return milliseconds(f.P99) }},
	{"first sync of all streams, controller CPU", "s", [2]float64{}, func(f Figures) float64 { return f.SyncCPU.Seconds() }},
	{"until the last of them has everything", "s", [2]float64{}, func(f Figures) float64 { return f.SyncTime.Seconds() }},
	{"resident memory with these streams, right after the changes", "MiB", [2]float64{}, func(f Figures) float64 { return mebibytes(f.Resident) }},
	{"and when they have rested for a minute", "MiB", [2]float64{0, 400}, func(f Figures) float64 { return mebibytes(f.Rested) }},
	{"the same at most", "MiB", [2]float64{}, func(f Figures) float64 { return mebibytes(f.Peak) }},
	{"start with the directory full until ready", "s", [2]float64{}, func(f Figures) float64 { return f.Start.Seconds() }},
}
