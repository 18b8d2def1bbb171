package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/dnsproxy/name"
)

// Parse reads content as the extension of path says: .yaml, .yml and .json hold a map of host to addresses, anything
// else is lines of "ADDRESS HOST [ALIAS…]" with # for comments. The names are valid and in order of their hosts.
func Parse(path string, content []byte) ([]name.Name, error) {
	var byHost map[string]name.Name
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
		byHost, err = parseYAML(content)
	default:
		byHost, err = parseLines(content)
	}
	var names []name.Name
	for _, n := range byHost {
		if invalid := n.Validate(); invalid != nil {
			err = errors.Join(err, invalid)
		}
		names = append(names, n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	slices.SortFunc(names, func(a, b name.Name) int { return strings.Compare(a.Host, b.Host) })
	return names, nil
}

// entry is what stands for a host in YAML: its addresses, or these and more.
type entry struct {
	Addresses []string `json:"addresses"`
	TTL       uint32   `json:"ttl"`
	Aliases   []string `json:"aliases"`
}

// UnmarshalJSON also takes a list of addresses, or one.
func (e *entry) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &e.Addresses) == nil {
		return nil
	}
	var one string
	if json.Unmarshal(b, &one) == nil {
		e.Addresses = []string{one}
		return nil
	}
	type plain entry
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(e))
}

func parseYAML(content []byte) (map[string]name.Name, error) {
	var entries map[string]entry
	if err := yaml.UnmarshalStrict(content, &entries); err != nil {
		return nil, fmt.Errorf("want a map of HOST: [ADDRESS, …] or HOST: {addresses, ttl, aliases}: %w", err)
	}
	byHost := map[string]name.Name{}
	for host, e := range entries {
		n := name.Name{Host: fold(host), TTL: e.TTL, Aliases: e.Aliases}
		for i, text := range e.Addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("%s: addresses[%d] %q: not an IP address", host, i, text)
			}
			n.Addresses = append(n.Addresses, addr)
		}
		if _, twice := byHost[n.Host]; twice {
			return nil, fmt.Errorf("%s: is there twice, in different case", host)
		}
		byHost[n.Host] = n
	}
	return byHost, nil
}

// parseLines reads the form of /etc/hosts. A host may be on several lines, for several addresses.
func parseLines(content []byte) (map[string]name.Name, error) {
	byHost := map[string]name.Name{}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || len(fields) < 2 {
			return nil, fmt.Errorf("line %d %q: want ADDRESS HOST [ALIAS…]", number, strings.TrimSpace(line))
		}
		host := fold(fields[1])
		n := byHost[host]
		n.Host = host
		n.Addresses = append(n.Addresses, addr)
		for _, alias := range fields[2:] {
			if alias = fold(alias); !slices.Contains(n.Aliases, alias) {
				n.Aliases = append(n.Aliases, alias)
			}
		}
		byHost[host] = n
	}
	return byHost, nil
}

// fold brings a host into the one form under which it is compared.
func fold(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
