package suggest

import (
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Config is the configuration in force.
type Config struct {
	Snapshot *registry.Snapshot
	// Registry is what the snapshot is of. Suggest tries on it what would be, and leaves it as it is; it is nobody else's meanwhile. Waiting needs
	// none, and no Objects.
	Registry *registry.Registry
	Objects  []config.Change
	// Decide is policy.Decide, or what stands for it where something else than sidecars decides.
	Decide func(*registry.Snapshot, policy.Workload, policy.Destination) policy.Verdict
}

// Options say what is suggested.
type Options struct {
	Now time.Time
	// Namespace and Workload keep it to workloads of a namespace, and of these to a service account or an application; "" for all.
	Namespace, Workload string
	// Only, where it is set, keeps what is made to some flows; all others are still held to what they may do today.
	Only func(*seen.Flow) bool
	// Added keeps policies to rules that those in force lack: for whom none closes anything, none is made.
	Added bool
	// Denied suggests what would let through what was denied, too.
	Denied bool
	// ByApp makes policies for applications, by their labels, instead of service accounts.
	ByApp bool
	// Policies and Paths say whether policies are suggested, and whether their rules name methods and paths.
	Policies, Paths bool
	// Observe makes new policies deny nothing.
	Observe bool
	// Siblings is from how many names right below a domain on a wildcard takes their place; 0 for never.
	Siblings int
	// Limit is how many hosts are registered at most.
	Limit int
	// Unused is a log in which a registration, or a rule, has to be without use to be removed; nil asks for no removals.
	Unused *seen.Log
	// Owner, Ticket and Expires are of rules that are written.
	Owner, Ticket string
	Expires       time.Time
}
