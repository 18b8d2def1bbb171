package relay

import (
	"log/slog"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/ondemand"
)

// SecretType is the type of Envoy's secrets. The agent follows it itself; what Envoy asks for of it by ADS are names that clients of an ingress
// gateway say, for which certificates answers.
const SecretType = typeURLPrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"

const (
	// mostLoose is how many names Envoy holds at a time that are no host's own: below a pattern there are as many as clients like to say, and a host's
	// letters may be written large. Each takes Envoy some 25 KiB. The oldest is given up for a new one, and asked for again when it is used.
	mostLoose = 1024
	// mostAtOnce is how many are answered in one response.
	mostAtOnce = 256
	// longestName is the longest that a name may be (RFC 1035 section 2.3.4).
	longestName = 255
)

// certificates finds the certificate for each name by which a client begins TLS: the most specific host's. What nobody has is closed at once, and
// nothing is remembered of it. The relay's goroutine uses it.
type certificates struct {
	log    *slog.Logger
	hosts  map[string]string // a host, a pattern or "*" → the name of its secret; "" where it is closed
	told   []string          // the hosts that the last Apply was about
	asked  map[string]*askedName
	by     map[string]map[string]struct{}   // the names that are shown a secret, by its name
	loose  *simplelru.LRU[string, struct{}] // those of asked that are no host's own, by when they came
	known  bool                             // which hosts there are has been said, in this life or an earlier one
	flying map[string][]string              // the names in a response that Envoy has not answered yet, by nonce
}

// askedName is a name that Envoy holds a certificate for, or waits for one.
type askedName struct {
	secret  string // whose it is
	version string // that was sent; "" for none
}

func newCertificates(log *slog.Logger) *certificates {
	c := &certificates{log: log, hosts: map[string]string{}}
	c.reset()
	return c
}

// reset forgets the session.
func (c *certificates) reset() {
	c.asked, c.by, c.flying = map[string]*askedName{}, map[string]map[string]struct{}{}, map[string][]string{}
	c.loose, _ = simplelru.NewLRU[string, struct{}](mostLoose, nil) // an error would be that of a size of nothing
}

// watch follows the hosts.
func (c *certificates) watch() Watch {
	return Watch{TypeURL: ondemand.ServerNameType, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		refused := map[string]error{}
		c.told = c.told[:0]
		for _, r := range changed {
			secret := &wrapperspb.StringValue{}
			if err := proto.Unmarshal(r.GetResource().GetValue(), secret); err != nil {
				refused[r.GetName()] = err
				continue
			}
			host := ondemand.ServerHost(r.GetName())
			c.hosts[host], c.told = secret.GetValue(), append(c.told, host)
		}
		for _, name := range removed {
			host := ondemand.ServerHost(name)
			delete(c.hosts, host)
			c.told = append(c.told, host)
		}
		return refused
	}}
}

// secretFor is the name of the secret for what a client says; "" where nothing is shown.
func (c *certificates) secretFor(name string) string {
	if name == ondemand.NoServerName {
		return c.hosts["*"]
	}
	if len(name) > longestName {
		return ""
	}
	name = strings.ToLower(name)
	if secret, is := c.hosts[name]; is {
		return secret
	}
	for i := 1; i < len(name); i++ {
		if name[i] != '.' {
			continue
		}
		if secret, is := c.hosts["*"+name[i:]]; is {
			return secret
		}
	}
	return c.hosts["*"]
}

// ask notes a name, and gives one up that has to make room for it.
func (c *certificates) ask(name, version string) (instead string, is bool) {
	if a := c.asked[name]; a != nil {
		a.version = version
		return "", false
	}
	c.asked[name] = &askedName{version: version}
	if _, own := c.hosts[name]; own || name == ondemand.NoServerName {
		return "", false
	}
	if c.loose.Len() == mostLoose {
		instead, _, is = c.loose.GetOldest()
		c.drop(instead)
	}
	c.loose.Add(name, struct{}{})
	return instead, is
}

// drop forgets a name.
func (c *certificates) drop(name string) {
	if a := c.asked[name]; a != nil {
		c.show(name, a, "")
		delete(c.asked, name)
		c.loose.Remove(name)
	}
}

// show notes which secret a name is shown.
func (c *certificates) show(name string, a *askedName, secret string) {
	if a.secret == secret {
		return
	}
	if of := c.by[a.secret]; of != nil {
		delete(of, name)
		if len(of) == 0 {
			delete(c.by, a.secret)
		}
	}
	if a.secret = secret; secret == "" {
		return
	}
	if c.by[secret] == nil {
		c.by[secret] = map[string]struct{}{}
	}
	c.by[secret][name] = struct{}{}
}

// about are the names in use that a change of hosts is about.
func (c *certificates) about(hosts []string) (names []string) {
	for _, host := range hosts {
		if host == "*" {
			host = ondemand.NoServerName
		}
		if !c.loose.Contains(host) && c.asked[host] != nil {
			names = append(names, host)
		}
	}
	return append(names, c.loose.Keys()...)
}

// certificateRequest takes a request of Envoy's for certificates by name.
func (m *machine) certificateRequest(req *discoveryv3.DeltaDiscoveryRequest) {
	c := m.certificates
	var gone []string
	if nonce := req.GetResponseNonce(); nonce != "" {
		if why := req.GetErrorDetail(); why != nil {
			m.nacks++
			c.log.Error("Envoy refused certificates; their names are closed", "names", c.flying[nonce], "reason", why.GetMessage())
			for _, name := range c.flying[nonce] {
				c.drop(name)
				gone = append(gone, name)
			}
		}
		delete(c.flying, nonce)
	}
	for _, name := range req.GetResourceNamesUnsubscribe() {
		c.drop(name)
	}
	var names []string
	for _, name := range req.GetResourceNamesSubscribe() {
		if c.known && c.secretFor(name) == "" { // which takes nobody's room
			c.drop(name)
			gone = append(gone, name)
			continue
		}
		if instead, full := c.ask(name, req.GetInitialResourceVersions()[name]); full {
			gone = append(gone, instead)
		}
		names = append(names, name)
	}
	m.certify(names, gone)
}

// certified is called when the controller has told of hosts, or of secrets: who uses what changed is told.
func (m *machine) certified(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) {
	c := m.certificates
	switch {
	case c == nil:
	case k.url == ondemand.ServerNameType:
		first := !c.known
		c.known = true
		if !first {
			m.certify(c.about(c.told), nil)
			return
		}
		var all []string
		for name := range c.asked {
			all = append(all, name)
		}
		m.certify(all, nil)
	case k.url == SecretType:
		var names []string
		use := func(secret string) {
			for name := range c.by[secret] {
				names = append(names, name)
			}
		}
		for _, r := range resp.GetResources() {
			use(r.GetName())
		}
		for _, name := range resp.GetRemovedResources() {
			use(name)
		}
		m.certify(names, nil)
	}
}

// certify answers for names, and takes back what is gone. As long as nobody has said which hosts there are, questions wait: Envoy ends what waits too
// long.
func (m *machine) certify(names, gone []string) {
	c := m.certificates
	if !c.known {
		names = nil
	}
	secrets := m.kind(SecretType)
	var found []*discoveryv3.Resource
	for _, name := range names {
		a := c.asked[name]
		if a == nil {
			continue
		}
		secret := c.secretFor(name)
		version, is := secrets.table.Version(secret)
		switch {
		case secret == "" || !is:
			c.drop(name)
			gone = append(gone, name)
			continue
		case a.secret == secret && a.version == version:
			continue
		}
		r, ok := m.body(secrets, secret)
		if !ok {
			c.drop(name)
			gone = append(gone, name)
			continue
		}
		c.show(name, a, secret)
		if a.version == version { // as Envoy, which came again, has it
			continue
		}
		a.version = version
		found = append(found, byName(r, name))
	}
	for len(found)+len(gone) > 0 {
		m.nonce++
		n, g := min(len(found), mostAtOnce), min(len(gone), mostAtOnce)
		out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: SecretType, Nonce: strconv.FormatUint(m.nonce, 10), Resources: found[:n:n], RemovedResources: gone[:g:g]}
		for _, r := range out.Resources {
			c.flying[out.Nonce] = append(c.flying[out.Nonce], r.GetName())
		}
		m.toEnvoy = append(m.toEnvoy, out)
		found, gone = found[n:], gone[g:]
	}
}

// byName is a secret by another name, which Envoy holds it to: of a field that comes twice the last counts.
func byName(r *discoveryv3.Resource, name string) *discoveryv3.Resource {
	const secretName = 1 // envoy.extensions.transport_sockets.tls.v3.Secret.name
	body := r.GetResource().GetValue()
	body = protowire.AppendTag(body[:len(body):len(body)], secretName, protowire.BytesType)
	return &discoveryv3.Resource{
		Name: name, Version: r.GetVersion(), Resource: &anypb.Any{TypeUrl: r.GetResource().GetTypeUrl(), Value: protowire.AppendString(body, name)},
	}
}
