package resolve

import (
	"cmp"
	"fmt"
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
}

// Servers are those that the gateway opens, in order of their Gateways' age.
func (a Ingress) Servers() (out []IngressServer) {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Serves == registry.NotServed {
			continue
		}
		s := IngressServer{
			Gateway: o.Gateway.Key, Revision: o.Gateway.Revision, Field: fieldOf(o),
			Listen: o.Listen, Serves: o.Serves, Table: tableOf(o), TLS: o.TLS, OnDemand: o.OnDemand,
		}
		for _, f := range o.Hosts {
			if !slices.Contains(s.Hosts, f.Host) {
				s.Hosts = append(s.Hosts, f.Host)
			}
		}
		if s.TLS != nil {
			s.Closed = cmp.Or(o.Shut, a.give(&s))
		}
		out = append(out, s)
	}
	return out
}

// fieldOf is where a server is written in its Gateway: of a listener its name, which stays where others come and go.
func fieldOf(o *registry.IngressServer) string {
	if _, listener, of := gatewayapi.ParseRef(o.Ref); of {
		return listener
	}
	return fmt.Sprintf("spec.servers[%d]", o.Index)
}

// give finds what a server needs of Secrets, which are the gateway's own namespace's, or says what is missing.
func (a Ingress) give(s *IngressServer) string {
	if a.secrets == registry.NoSecrets {
		return "keys are given out over TLS only, and this gateway came without"
	}
	for _, name := range s.TLS.Credentials {
		ref := registry.CredentialRef{Namespace: a.Namespace, Name: name}
		if ns, name, other := strings.Cut(name, "/"); other { // as a ReferenceGrant lets it
			ref.Namespace, ref.Name = ns, name
		}
		c, problem := a.snap.Credential(ref)
		switch {
		case a.secrets == registry.SecretsUnseen:
		case c == nil:
			return problem
		case len(c.Key) == 0:
			return fmt.Sprintf("Secret %s/%s holds no certificate with a key", ref.Namespace, ref.Name)
		}
		s.Given = append(s.Given, registry.ServedCredential{Ref: ref, Pair: true})
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
