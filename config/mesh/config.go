package mesh

import (
	"net/netip"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
)

// Config is the mesh's settings. It is a value that nobody changes once it is loaded; its slices must not be
// written to.
type Config struct {
	// OutboundAllowAny sends unregistered hosts to PassthroughCluster; otherwise to BlackHoleCluster.
	OutboundAllowAny bool
	// OutboundDynamicDNS, beside OutboundAllowAny, is Istio's ALLOW_ANY_DYNAMIC_DNS: plain HTTP requests to unregistered hosts go
	// where the proxy resolves their Host, not to the address that the client chose.
	OutboundDynamicDNS bool
	// RootNamespace is where objects govern the whole mesh.
	RootNamespace string
	// TrustDomain is the first part of SPIFFE ids; TrustDomainAliases are accepted from peers too.
	TrustDomain        string
	TrustDomainAliases []string
	// DefaultGateway is the egress gateway of external hosts that name none; the zero Gateway means none.
	DefaultGateway Gateway
	// What exportTo means where an object does not say: ".", "*" or names of namespaces. Istio has one setting
	// for Services and ServiceEntries, so the first two are equal.
	DefaultServiceExportTo         []string
	DefaultServiceEntryExportTo    []string
	DefaultVirtualServiceExportTo  []string
	DefaultDestinationRuleExportTo []string
	// ProtocolDetectionTimeout is how long a listener waits for a client's first bytes; 0 means as long as proxies do by themselves.
	ProtocolDetectionTimeout time.Duration
	// TCPPorts are ports, beside those that are known for it, at which proxies of workloads wait for no client's first bytes and take
	// everything for TCP. Sorted.
	TCPPorts []uint32
	// ConnectTimeout bounds connecting to an endpoint where no DestinationRule says otherwise.
	ConnectTimeout time.Duration
	// MutualTLS says that pods with proxies take mutual TLS, as PeerAuthentications say, and speak it to each other.
	MutualTLS bool
	// TraceProxies says that an agent which may not copy its Envoy's descriptors may trace it (ptrace) to end a connection.
	TraceProxies bool
	// AutoMTLS says that pods which take mutual TLS are spoken to by it where no DestinationRule says otherwise.
	AutoMTLS bool
	// Exports says whose registrations count beyond their own namespace.
	Exports Exports
	DNS     DNS
	// CertificateFolders are where the files may be that DestinationRules name by path.
	CertificateFolders CertificateFolders
	Audit              Audit
	// ClusterNetworks are where the cluster's pods and nodes are; empty: as its Nodes say. What goes there is not outside.
	ClusterNetworks []netip.Prefix
	Injection       Injection
	// Fetch is which hosts sidecars hold: All, or those in OnUse, of which one that is not used any more stays for KeepUnused.
	Fetch      string
	KeepUnused time.Duration
	// FetchGateways is the same of egress gateways: which rows their Envoys hold.
	FetchGateways string
	Policy        Policy
	Ingress       Ingress
	Topology      Topology
	// LocalityLb is Istio's localityLbSetting: which endpoints are asked first, by where they are. It counts where endpoints that fail are
	// noticed (outlierDetection), or shares are distributed.
	LocalityLb *networking.LocalityLoadBalancerSetting
	// NodeAgents are the service accounts, NAMESPACE/NAME, of agents that serve the pods of their nodes (ambient).
	NodeAgents []string
	// ExportedTables is how many namespaces have tables of their own at nodes for the sake of what one other namespace exports to them by name.
	ExportedTables int
	// Authorizers are the providers that AuthorizationPolicies with the action CUSTOM may name.
	Authorizers []Authorizer
	// Ignored are the settings that the file has and that are not applied: what lint and the controller's log say of them.
	Ignored []strict.Problem
}

// Audit is the sallyport.audit block.
type Audit struct {
	// Retention is how long records are kept; 0 means for ever, if it is Written, and is left to the audit server otherwise.
	Retention time.Duration
	Written   bool
	// RecordsPerSecond is how many records are taken of one identity, on the average of a minute; 0 means all. What is more
	// is dropped, and a record of class gap says how many those were.
	RecordsPerSecond float64
	// Mesh is what is recorded of what comes to pods, by their own proxies: MeshOff, MeshDenied, or MeshAll.
	Mesh string
	// WhenFull is what a proxy does whose disk takes no more records: Drop, and tell how many those were, or Deny what would be recorded.
	WhenFull string
}

// What Audit.WhenFull may be.
const (
	Drop = "drop"
	Deny = "deny"
)

// What Audit.Mesh may be.
const (
	MeshOff    = "off"
	MeshDenied = "denied"
	MeshAll    = "all"
)

// What Fetch may be.
const (
	All   = "all"
	OnUse = "onUse"
)

// defaultRecordsPerSecond is more than a busy service has, and less than fills a disk in an hour.
const defaultRecordsPerSecond = 1000

// defaultExportedTables times a row for each host is what one namespace can cost a node by what it exports.
const defaultExportedTables = 8

// Default is the configuration of a mesh that has no file: Istio's defaults, and the egress gateway that Istio's
// installation makes.
func Default() Config {
	everyone := []string{"*"}
	return Config{
		OutboundAllowAny:               true,
		RootNamespace:                  "istio-system",
		TrustDomain:                    "cluster.local",
		DefaultGateway:                 Gateway{Namespace: "istio-system", Name: "istio-egressgateway"},
		DefaultServiceExportTo:         everyone,
		DefaultServiceEntryExportTo:    everyone,
		DefaultVirtualServiceExportTo:  everyone,
		DefaultDestinationRuleExportTo: everyone,
		MutualTLS:                      true,
		TraceProxies:                   true,
		AutoMTLS:                       true,
		ConnectTimeout:                 10 * time.Second,
		Audit:                          Audit{RecordsPerSecond: defaultRecordsPerSecond, WhenFull: Drop, Mesh: MeshDenied},
		Exports:                        DefaultExports(),
		Topology:                       defaultTopology(),
		Fetch:                          All,
		FetchGateways:                  All,
		KeepUnused:                     24 * time.Hour,
		ExportedTables:                 defaultExportedTables,
		LocalityLb:                     &networking.LocalityLoadBalancerSetting{},
	}
}
