package secrets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Type is the type URL of the secrets that the controller gives for hosts outside: client certificates, and whom to
// trust there.
const Type = secretType

// givenPrefix begins the names of all that the controller may give: it cannot replace the workload's own.
const givenPrefix = "kubernetes"

// Give takes over what the controller gives and takes back, and hands it to Envoy. Errors name secrets, never what is in
// them.
func (w *Workload) Give(changed []*discoveryv3.Resource, removed []string) map[string]error {
	refused := map[string]error{}
	good := map[string]secret{}
	for _, r := range changed {
		s, err := readGiven(r)
		if err != nil {
			refused[r.GetName()] = err
			continue
		}
		good[r.GetName()] = s
	}
	w.board.update(func(m material) material {
		next := maps.Clone(m.others)
		if next == nil {
			next = map[string]secret{}
		}
		maps.Copy(next, good)
		for _, name := range removed {
			delete(next, name)
		}
		m.others = next
		return m
	})
	return refused
}

func readGiven(r *discoveryv3.Resource) (secret, error) {
	if !strings.HasPrefix(r.GetName(), givenPrefix) {
		return secret{}, fmt.Errorf("is no name of a credential's; those begin with %q", givenPrefix)
	}
	var s tlsv3.Secret
	if r.GetResource().GetTypeUrl() != secretType || proto.Unmarshal(r.GetResource().GetValue(), &s) != nil {
		return secret{}, errors.New("is no secret that can be read")
	}
	if s.GetName() != r.GetName() {
		return secret{}, errors.New("is named otherwise inside")
	}
	hash := sha256.Sum256(r.GetResource().GetValue())
	return secret{version: hex.EncodeToString(hash[:16]), body: r.GetResource()}, nil
}
