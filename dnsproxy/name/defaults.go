package name

import (
	"fmt"
	"math"
	"strings"
)

// Everything is the host of the one resource that is about all names that the table does not have.
const Everything = "*"

// Defaults says what becomes of names that are not in the table. The zero value lets all of them be resolved.
type Defaults struct {
	// Refuse answers that names which nobody registered do not exist.
	Refuse bool `json:",omitempty"`
	// Local are domains that are resolved with all below them although Refuse is set: the cluster's own.
	Local []string `json:",omitempty"`
	// DecidedBy is the object behind Refuse, as KIND/NAMESPACE/NAME.
	DecidedBy string `json:",omitempty"`
	// Rate bounds the questions a second that each client makes the resolver ask others, OddRate those that look like a
	// tunnel's. 0: no limit.
	Rate    float64 `json:",omitempty"`
	OddRate float64 `json:",omitempty"`
	// Upstreams are the resolvers to ask, as upstream.ParseServer reads them. None: those that the proxy finds itself.
	Upstreams []string `json:",omitempty"`
	// Forward are domains that are asked elsewhere.
	Forward []Forward `json:",omitempty"`
	// AllowPrivate are hosts, *.SUFFIX, addresses and address ranges that Envoy may be told although they are not public.
	AllowPrivate []string `json:",omitempty"`
	// Never are addresses that Envoy is told in no case: the mesh's own gateways and its control plane.
	Never []string `json:",omitempty"`
	// KeepECH leaves the keys in answers by which clients hide the name that they go to.
	KeepECH bool `json:",omitempty"`
	// DenyUnrecorded is no matter of names: the proxy refuses what it could not record, because its disk is full (sallyport.audit.whenFull).
	DenyUnrecorded bool `json:",omitempty"`
	// NeverTrace is none either: the agent does not trace its Envoy to end a connection (sallyport.traceProxies).
	NeverTrace bool `json:",omitempty"`
}

// Forward sends the questions for a domain and all below it to other resolvers.
type Forward struct {
	Domain    string
	Upstreams []string
}

// validate says why r cannot be used, as far as this package knows its words.
func (r *Defaults) validate() error {
	for i, domain := range r.Local {
		if err := checkDomain(domain); err != nil {
			return fmt.Errorf("local[%d] %q: %w", i, domain, err)
		}
	}
	for _, rate := range []float64{r.Rate, r.OddRate} {
		if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			return fmt.Errorf("rate %v: must be questions a second, 0 for no limit", rate)
		}
	}
	for i, f := range r.Forward {
		if err := checkDomain(f.Domain); err != nil {
			return fmt.Errorf("forward[%d] %q: %w", i, f.Domain, err)
		}
		if len(f.Upstreams) == 0 {
			return fmt.Errorf("forward[%d] %q: names no resolver", i, f.Domain)
		}
	}
	return nil
}

func checkDomain(domain string) error {
	if strings.HasPrefix(domain, "*") {
		return fmt.Errorf("is a pattern; write the domain alone")
	}
	return checkHost(domain)
}
