package machine

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"
	"istio.io/api/annotation"
	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
)

// Origin is where an entry comes from that a machine's proxy made by joining.
const Origin = "machine"

// Proxy is the proxy of a machine. What labels it says of itself count for nothing: who it is, and whom policies mean, is the group's to say.
type Proxy struct {
	// What its certificate or token, and its connection, prove.
	Namespace, Account string
	Source             netip.Addr

	// What it says of itself.
	Group    string
	Host     string // the machine's name
	Address  netip.Addr
	Network  string // "" for the template's; no other is taken
	Locality string // "" for the template's
}

// GroupKey is the group that it wants to join.
func (p Proxy) GroupKey() config.Key {
	return config.Key{Kind: config.KindWorkloadGroup, Namespace: p.Namespace, Name: p.Group}
}

// Key is that of its entry: Istio's GROUP-ADDRESS. All machines of a group are of one network.
func (p Proxy) Key() config.Key {
	return config.Key{Kind: config.KindWorkloadEntry, Namespace: p.Namespace, Name: p.Group + "-" + strings.ReplaceAll(p.Address.String(), ":", "-")}
}

// longest is how long anything is, in bytes, that a proxy says of itself: as names are.
const longest = validation.DNS1123SubdomainMaxLength

// Check says what is too long. Only after it are the words fit to be told to anybody, or kept.
func (p Proxy) Check() error {
	for _, said := range []struct{ what, text string }{
		{"WorkloadGroup (ISTIO_META_AUTO_REGISTER_GROUP)", p.Group}, {"name (--name)", p.Host}, {"network (ISTIO_META_NETWORK)", p.Network}, {"locality", p.Locality},
	} {
		if len(said.text) > longest {
			return fmt.Errorf("the machine's %s has %d bytes, at most %d are taken: give it a shorter one", said.what, len(said.text), longest)
		}
	}
	return nil
}

// Entry makes the entry of a proxy that may join the group.
func Entry(group *config.Object, p Proxy) (*config.Object, error) {
	g := group.Spec.(*networking.WorkloadGroup)
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := mayJoin(group, p); err != nil {
		return nil, fmt.Errorf("%s of %s may not join %s: %w", p.Address, p.Namespace+"/"+p.Account, group.Key, err)
	}
	spec := proto.Clone(g.Template).(*networking.WorkloadEntry)
	spec.Address, spec.ServiceAccount = p.Address.String(), p.Account
	spec.Locality = cmp.Or(p.Locality, spec.Locality)
	spec.Labels = labels(g)
	o := &config.Object{
		Key: p.Key(), Labels: maps.Clone(spec.Labels), Annotations: map[string]string{}, Origin: Origin, Spec: spec,
	}
	maps.Copy(o.Annotations, g.GetMetadata().GetAnnotations())
	o.Annotations[annotation.IoIstioAutoRegistrationGroup.Name] = group.Name
	if g.Probe != nil {
		o.Annotations[decode.HealthChecks] = "true"
	}
	decode.Stamp(o)
	return o, nil
}

// AccountOf is the service account of a group's machines.
func AccountOf(g *networking.WorkloadGroup) string {
	return cmp.Or(g.GetTemplate().GetServiceAccount(), "default")
}

// labels are those of the group's machines: which Services a machine stands behind, and whom policies mean, is the namespace's to say. A proxy is there,
// so clients are told that it takes mutual TLS, unless the group says otherwise.
func labels(g *networking.WorkloadGroup) map[string]string {
	out := map[string]string{label.SecurityTlsMode.Name: "istio"}
	for _, said := range []map[string]string{g.Template.GetLabels(), g.GetMetadata().GetLabels()} {
		maps.Copy(out, said)
	}
	return out
}

// mayJoin says why not; nil where it may.
func mayJoin(group *config.Object, p Proxy) error {
	g := group.Spec.(*networking.WorkloadGroup)
	account := AccountOf(g)
	switch {
	case g.Template == nil:
		return fmt.Errorf("it has no spec.template; write one, as in {serviceAccount: NAME}")
	case p.Namespace != group.Namespace:
		return fmt.Errorf("it is of another namespace than the token, which is of %q", p.Namespace)
	case p.Account != account:
		return fmt.Errorf("its spec.template.serviceAccount is %q; use a token of that account, or write %q there", account, p.Account)
	}
	if p.Network != "" && p.Network != g.Template.GetNetwork() {
		return fmt.Errorf("it says that its network is %q, and the group's spec.template.network is %q; give the agent that ISTIO_META_NETWORK or none, or write a group for the other network", p.Network, g.Template.GetNetwork())
	}
	if err := mayHave(group, p); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(p.Key().Name); len(problems) > 0 {
		return fmt.Errorf("its WorkloadEntry would be called %q (group, address), and that is no name: %s; give the group a shorter name", p.Key().Name, problems[0])
	}
	return nil
}

// mayHave says why the machine may not be known at the address. It is where its connection comes from, unless the group names ranges: a machine behind
// a translation of addresses cannot show its own.
func mayHave(group *config.Object, p Proxy) error {
	a := p.Address
	if !a.IsValid() || a.Zone() != "" || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s is no address that others could reach it by; give the agent another one (--ip, INSTANCE_IP)", a)
	}
	ranges, err := admission.MachineRanges(group.Annotations[admission.MachinesAnnotation])
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if r.Contains(a) {
			return nil
		}
	}
	if a == p.Source {
		return nil
	}
	return fmt.Errorf("its connection comes from %s; give the agent that address, or, where addresses are translated on the way, write the machines' own ranges into the group's annotation %s, such as %s/%d", p.Source, admission.MachinesAnnotation, a, a.BitLen())
}

// holders begins what the annotation istio.io/workloadController says of entries that are held by control planes of this kind, and no others.
const holders = "sallyport/"

// Holder is how a replica is written that holds an entry: by its pod.
func Holder(namespace, pod string) string { return holders + namespace + "/" + pod }

// HolderOf is which replica holds an entry in an API server; not ok for entries that somebody wrote, or that another control plane keeps.
func HolderOf(annotations map[string]string) (namespace, pod string, ok bool) {
	if annotations[annotation.IoIstioAutoRegistrationGroup.Name] == "" {
		return "", "", false
	}
	by, ok := strings.CutPrefix(annotations[annotation.IoIstioWorkloadController.Name], holders)
	if namespace, pod, _ = strings.Cut(by, "/"); !ok || namespace == "" || pod == "" {
		return "", "", false
	}
	return namespace, pod, true
}

// TakeOut makes an entry no endpoint, and says why. The entry is nobody else's yet.
func TakeOut(entry *config.Object, why string) {
	entry.Out = why
	decode.Stamp(entry)
}
