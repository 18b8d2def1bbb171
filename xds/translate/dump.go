package translate

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/xds/resource"
)

// short are the names of the types in a dump.
var short = [resource.Count]string{
	resource.Secret: "secrets", resource.Cluster: "clusters", resource.OnDemandCluster: "onDemandClusters", resource.Endpoints: "endpoints",
	resource.Scope: "scopes", resource.Listener: "listeners", resource.Extension: "extensions", resource.Route: "routes", resource.VirtualHost: "virtualHosts", resource.Name: "names",
	resource.Digest: "rowDigest", resource.ServerName: "serverNames",
}

// Dump gives the resources of a proxy's views as JSON, by the short name of their type and by their own name.
func Dump(views ...*View) (map[string]map[string]json.RawMessage, error) {
	out := map[string]map[string]json.RawMessage{}
	for _, t := range resource.Types() {
		of := map[string]json.RawMessage{}
		for _, v := range views {
			var failed error
			v.Walk(t, func(r *resource.Resource) bool {
				of[r.Name], failed = readable(r)
				return failed == nil
			})
			if failed != nil {
				return nil, failed
			}
		}
		out[short[t]] = of
	}
	return out, nil
}

func readable(r *resource.Resource) (json.RawMessage, error) {
	if r.Type == resource.Secret { // keys are for nobody's eyes: not even their hash
		return json.Marshal("[redacted]")
	}
	if r.Type == resource.Digest {
		return json.Marshal(r.Value())
	}
	if r.Type == resource.ServerName { // what is shown for it
		secret := &wrapperspb.StringValue{}
		if err := proto.Unmarshal(r.Value(), secret); err != nil {
			return nil, fmt.Errorf("%s %q: %w", r.Type.URL(), r.Name, err)
		}
		return json.Marshal(secret.GetValue())
	}
	if r.Type == resource.Name {
		n, err := name.Unmarshal(r.Value())
		if err != nil {
			return nil, err
		}
		return json.Marshal(n)
	}
	m, err := r.Any().UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", r.Type.URL(), r.Name, err)
	}
	return protojson.Marshal(m)
}
