package resolve

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Ingress is a gateway by which others come into the mesh.
type Ingress struct {
	registry.Ingress
	snap    *registry.Snapshot
	secrets registry.SecretAccess
	near    registry.ClientLocation
}

// IngressOf is the one that pods are.
func IngressOf(s *registry.Snapshot, who registry.Ingress, secrets registry.SecretAccess) Ingress {
	return Ingress{Ingress: who, snap: s, secrets: secrets}
}

// At is the gateway where that is.
func (a Ingress) At(near registry.ClientLocation) Ingress {
	a.near = near
	return a
}

// IngressServer is a Gateway's server as the gateway opens it.
type IngressServer struct {
	Gateway  config.Key
	Revision string
	Field    string // "spec.servers[0]"; of a listener of the Gateway API its name, after that of its ListenerSet
	Listen   uint32 // where the pods listen
	Serves   registry.ServerKind
	Hosts    []string     // that clients name: exact ones and patterns, "*" for all
	Table    IngressTable // that says what happens
	TLS      *registry.ServerTLS
	Given    []registry.ServedCredential // what it needs of Secrets; the first ones are its certificates
	Roots    *registry.ServedCredential  // who clients may be
	// Closed is why nothing comes in there, though it is opened; "" where something does.
	Closed string
	// OnDemand says that its certificate is found by the name that a client says (registry.IngressServer).
	OnDemand bool
	// HTTP3 is the port by which clients come to it by HTTP/3, too; 0 where it does not speak it.
	HTTP3 uint32
	// Others says that its table answers for all names that are not its own (Ingress.TurnsAway).
	Others bool
	// Exits are the egress gateways that it leads to, where it passes mutual TLS of the mesh on.
	Exits []PassedExit
}

// Servers are those that the gateway opens, in order of their Gateways' age.
func (a Ingress) Servers() []IngressServer {
	return a.servers(func(*registry.IngressServer) bool { return true })
}

// Chains are the servers without those that share a filter chain, for which a server without hosts stands: what is said of each of them is in
// Certificates.
func (a Ingress) Chains() []IngressServer {
	out := a.servers(func(o *registry.IngressServer) bool { return !o.OnDemand })
	if shared := a.snap.Opened(a.Ingress).Shared; len(shared) > 0 {
		o := shared[0]
		out = append(out, IngressServer{Listen: o.Listen, Serves: o.Serves, Table: tableOf(o), OnDemand: true})
	}
	return out
}

// TurnsAway says of a server's own table that what it does not know is for a connection of its own: names that are found by name are as many as there are.
// None of them is below a pattern of such a server.
func (a Ingress) TurnsAway(s *IngressServer) bool {
	shared := a.snap.Opened(a.Ingress).Shared
	return len(shared) > 0 && shared[0].Alone && shared[0].Listen == s.Listen && s.Serves == registry.ServesTLSRequests && s.Table != tableOf(shared[0])
}

// Tables are those of requests inside of TLS: what each says of a name follows from which others there are.
func (a Ingress) Tables() (out []IngressTable) {
	for _, o := range a.snap.Opened(a.Ingress).Apart {
		out = append(out, tableOf(o))
	}
	return out
}

// Certificate is what is shown for a host of a server that shares a filter chain: the pair of a Secret. Where it is not there, the host is closed.
type Certificate struct {
	Ref    registry.CredentialRef // the zero value: none is asked for
	Closed bool
}

// Certificates goes through those hosts.
func (a Ingress) Certificates() iter.Seq2[string, Certificate] {
	return func(yield func(string, Certificate) bool) {
		for _, o := range a.snap.Opened(a.Ingress).Shared {
			c := Certificate{Closed: true}
			if len(o.TLS.Credentials) > 0 {
				c.Ref = a.secretOf(o.TLS.Credentials[0])
				_, why := a.given(c.Ref)
				c.Closed = cmp.Or(o.Shut, why) != ""
			}
			for _, f := range o.Hosts {
				if !yield(f.Host, c) {
					return
				}
			}
		}
	}
}

// Shared are the servers that Certificates is about: where they are the same, so is which hosts there are.
func (a Ingress) Shared() *registry.IngressPorts { return a.snap.Opened(a.Ingress) }

func (a Ingress) servers(which func(*registry.IngressServer) bool) (out []IngressServer) {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Serves == registry.NotServed || !which(o) {
			continue
		}
		s := IngressServer{
			Gateway: o.Gateway.Key, Revision: o.Gateway.Revision, Field: fieldOf(o),
			Listen: o.Listen, Serves: o.Serves, Table: tableOf(o), TLS: o.TLS, OnDemand: o.OnDemand, HTTP3: o.HTTP3, Exits: a.PassedExits(o),
		}
		for _, f := range o.Hosts {
			if !slices.Contains(s.Hosts, f.Host) {
				s.Hosts = append(s.Hosts, f.Host)
			}
		}
		if s.TLS != nil {
			s.Closed = cmp.Or(o.Shut, a.give(&s))
		}
		s.Others = a.TurnsAway(&s)
		out = append(out, s)
	}
	leaveOutHTTP3(out)
	return out
}

// fieldOf is where a server is written in its Gateway: of a listener its name, which stays where others come and go.
func fieldOf(o *registry.IngressServer) string {
	if _, listener, of := gatewayapi.ParseRef(o.Ref); of {
		return listener
	}
	return fmt.Sprintf("spec.servers[%d]", o.Index)
}

// secretOf is the Secret that a server names.
func (a Ingress) secretOf(name string) registry.CredentialRef {
	if ns, name, other := strings.Cut(name, "/"); other { // as a ReferenceGrant lets it
		return registry.CredentialRef{Namespace: ns, Name: name}
	}
	return registry.CredentialRef{Namespace: a.Namespace, Name: name}
}

// given is the pair of a Secret, or why there is none.
func (a Ingress) given(ref registry.CredentialRef) (registry.ServedCredential, string) {
	given := registry.ServedCredential{Ref: ref, Pair: true}
	switch a.secrets {
	case registry.NoSecrets:
		return given, "keys are given out over TLS only, and this gateway came without"
	case registry.SecretsUnseen:
		return given, ""
	}
	c, problem := a.snap.Credential(ref)
	switch {
	case c == nil:
		return given, problem
	case len(c.Key) == 0:
		return given, fmt.Sprintf("Secret %s/%s holds no certificate with a key", ref.Namespace, ref.Name)
	}
	return given, ""
}

// give finds what a server needs of Secrets, which are the gateway's own namespace's, or says what is missing.
func (a Ingress) give(s *IngressServer) string {
	if a.secrets == registry.NoSecrets {
		return "keys are given out over TLS only, and this gateway came without"
	}
	for _, name := range s.TLS.Credentials {
		given, problem := a.given(a.secretOf(name))
		if problem != "" {
			return problem
		}
		s.Given = append(s.Given, given)
	}
	if s.TLS.Clients == registry.NoneAsked {
		return ""
	}
	ref := registry.CredentialRef{Namespace: a.Namespace, Name: s.TLS.Roots}
	switch {
	case s.TLS.Trust.Bundle != "":
		ref = s.TLS.Trust
	case ref.Name == "":
		ref.Name = s.TLS.Credentials[0]
	}
	c, problem := a.snap.Credential(ref)
	switch {
	case a.secrets == registry.SecretsUnseen:
	case c == nil:
		return problem
	case len(c.Roots) == 0:
		return fmt.Sprintf("Secret %s/%s holds no ca.crt, which says who clients may be", ref.Namespace, ref.Name)
	}
	s.Roots = &registry.ServedCredential{Ref: ref, Roots: true}
	return ""
}

// IngressTable is a table of rows, by which it is said what happens at servers.
type IngressTable struct {
	Serves registry.ServerKind
	Listen uint32
	Own    string // what tells it from others of its kind at the port: "PORTNAME.GATEWAY.NAMESPACE"; "" for the shared one
}

// tableOf is the table of a server. Requests inside of TLS that it ends in the usual way share one for a port: of each of its hosts a
// client may ask whose certificate covers another. Where more is asked of clients, nobody else's connection leads.
func tableOf(o *registry.IngressServer) IngressTable {
	t := IngressTable{Serves: o.Serves, Listen: o.Listen}
	switch {
	case o.OnDemand && o.Alone: // whose rows tell connections apart
		t.Own = "sni"
	case o.OnDemand:
	case o.Serves == registry.ServesTLSBytes && !o.Alone: // by their TLS names, too
		t.Serves = registry.PassesTLS
	case o.Alone && o.Serves.Family() == registry.PassesTLS: // what a listener's connections lead to is its own
		t.Own = o.Name + "." + o.Gateway.Key.Name + "." + o.Gateway.Key.Namespace
		if o.Serves == registry.ServesTLSBytes {
			t.Serves = registry.PassesTLS
		}
	case o.Serves == registry.ServesTLSRequests && !o.TLS.Plain():
		t.Own = o.Name + "." + o.Gateway.Key.Name + "." + o.Gateway.Key.Namespace
	}
	return t
}
