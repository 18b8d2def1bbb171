package nodeguard

// Table is the name of the nftables table, of family inet.
const Table = "sallyport_guard"

// Priority is that of the base chains, ahead of those of network plugins and of kube-proxy (filter is 0): what the guard
// refuses need not be judged by others, and what it lets pass they judge still.
const Priority = -10

// LogGroup is the nfnetlink_log group of the samples.
const LogGroup = 1337

// The rate of samples, packets; what is above is counted only.
const (
	LogPerSecond = 50
	LogBurst     = 100
	LogBytes     = 128 // of each packet: its headers
)

// The sets; each has one with 4 and one with 6 behind its name.
const (
	SetNetworks  = "networks"  // destinations: networks
	SetAddresses = "addresses" // destinations: single addresses
	SetOpen      = "open"      // pods that may reach the world
	SetGuarded   = "guarded"   // pods that may not
	SetRefused   = "refused"   // the same, each with its counter
	SetLocal     = "local"     // networks of this node's pods
)

// The chains.
const (
	ChainForward = "forward" // what pods send, and what they are sent
	ChainOutput  = "output"  // what the node sends in a pod's name: IPVS
	ChainReplies = "replies" // the answering half of connections
	ChainSources = "sources" // what is for the world, by who sends it
	ChainRefuse  = "refuse"
	ChainUnknown = "unknown"
	ChainSpoofed = "spoofed"
)

// The counters. Refused packets of known pods are counted in [SetRefused].
const (
	CounterUnknown = "unknown"
	CounterSpoofed = "spoofed"
	CounterAnswers = "answers"
)

// Counters lists them.
var Counters = []string{CounterUnknown, CounterSpoofed, CounterAnswers}

// Chain is a chain with its rules. A hook makes it a base chain, whose policy is to accept.
type Chain struct {
	Name  string
	Hook  string // "forward", "output" or ""
	Rules []Rule
}

// Rule is a row of terms: conditions, then what is done.
type Rule struct {
	Terms   []Term
	Comment string // says why; it also tells whether the kernel's rule is ours
}

// Term is a condition or a statement. Arg is the set, chain, counter or prefix that it speaks of.
type Term struct {
	Kind Kind
	Arg  string
}

// Kind is what a term does.
type Kind int

// The kinds of terms, with their nft words.
const (
	Reply            Kind = iota // ct direction reply
	Source4                      // ip saddr @ARG
	Source6                      // ip6 saddr @ARG
	Destination4                 // ip daddr @ARG
	Destination6                 // ip6 daddr @ARG
	NoWayBack                    // fib saddr . iif oif missing
	NodesOwn                     // fib saddr type local
	TCP                          // meta l4proto tcp
	Count                        // counter name ARG
	Sample                       // limit …, log prefix ARG …
	RejectReset                  // reject with tcp reset
	RejectProhibited             // reject with icmpx admin-prohibited
	Drop
	Accept
	Goto // goto ARG
)

// chains gives the rules. They depend on options only; what changes from day to day is in the sets.
func chains(o Options) []Chain {
	toCluster := both(Destination4, Destination6, SetNetworks, "to the cluster, or to what --allow names", Term{Kind: Accept})
	toCluster = append(toCluster, both(Destination4, Destination6, SetAddresses, "to a node or Service", Term{Kind: Accept})...)
	toWorld := Rule{[]Term{{Goto, ChainSources}}, "to the world"}

	forward := append([]Rule{{[]Term{{Kind: Reply}, {Goto, ChainReplies}}, "answers"}}, toCluster...)
	if !o.AllowSpoofed {
		forward = append(forward, Rule{[]Term{{Kind: NoWayBack}, {Goto, ChainSpoofed}}, "in another's name"})
	}
	// The resets with which the guard refuses come by here too, as answers from the world.
	output := append([]Rule{
		{[]Term{{Kind: Reply}, {Kind: Accept}}, "answers"},
		{[]Term{{Kind: NodesOwn}, {Kind: Accept}}, "the node's own"},
	}, toCluster...)
	list := []Chain{
		{Name: ChainForward, Hook: "forward", Rules: append(forward, toWorld)},
		{Name: ChainOutput, Hook: "output", Rules: append(output, toWorld)},
		{Name: ChainReplies, Rules: replies()},
		{Name: ChainSources, Rules: sources(o)},
		{Name: ChainRefuse, Rules: append(both(Source4, Source6, SetRefused, "count by pod"), rejections(o, "guarded")...)},
	}
	if !o.AllowUnknown {
		list = append(list, Chain{Name: ChainUnknown, Rules: silence(o, CounterUnknown, "TCP tries again, and may once its pod is known")})
	}
	if !o.AllowSpoofed {
		list = append(list, Chain{Name: ChainSpoofed, Rules: silence(o, CounterSpoofed, "a rejection would reach somebody else")})
	}
	return list
}

// replies lets pods answer, and keeps the world from answering a guarded pod: a connection from before it was guarded.
func replies() []Rule {
	const fromCluster = "from the cluster"
	rules := both(Source4, Source6, SetNetworks, fromCluster, Term{Kind: Accept})
	rules = append(rules, both(Source4, Source6, SetAddresses, fromCluster, Term{Kind: Accept})...)
	return append(rules, both(Destination4, Destination6, SetGuarded, "the world's half of an old connection",
		Term{Count, CounterAnswers}, Term{Kind: Drop})...)
}

func sources(o Options) []Rule {
	// A pod that is guarded is refused even where another of its address is not: the address may just have moved.
	rules := both(Source4, Source6, SetGuarded, "a guarded pod", Term{Goto, ChainRefuse})
	rules = append(rules, both(Source4, Source6, SetOpen, "a pod that may", Term{Kind: Accept})...)
	if !o.AllowUnknown {
		rules = append(rules, both(Source4, Source6, SetLocal, "a pod not heard of yet", Term{Goto, ChainUnknown})...)
	}
	return rules
}

// rejections tell the client at once.
func rejections(o Options, prefix string) []Rule {
	return append(sample(o, prefix),
		Rule{[]Term{{Kind: TCP}, {Kind: RejectReset}}, "close TCP"},
		Rule{[]Term{{Kind: RejectProhibited}}, "refuse the rest"})
}

// silence drops without a word.
func silence(o Options, name, comment string) []Rule {
	return append(sample(o, name), Rule{[]Term{{Count, name}, {Kind: Drop}}, comment})
}

func sample(o Options, prefix string) []Rule {
	if o.NoLog {
		return nil
	}
	return []Rule{{[]Term{{Sample, prefix}}, "sample"}}
}

// both makes a rule for each family.
func both(four, six Kind, set, comment string, then ...Term) []Rule {
	return []Rule{
		{append([]Term{{four, set + "4"}}, then...), comment},
		{append([]Term{{six, set + "6"}}, then...), comment},
	}
}
