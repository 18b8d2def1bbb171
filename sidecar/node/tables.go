package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/ambient"
)

// Which ports have a table is said by a filter of what pods send (ambient.TablesFilter). It is the same for all pods of a template, and changes with each port that comes or goes: in the listeners, each
// change would replace them all, and end what they have open. So listeners take it from a file, which Envoy watches, and which is there before them.

// tablesApart has a template take that filter from a file in a folder, which it writes. A template without one, of an older controller, stays as it is.
func tablesApart(folder string, template *listenerv3.Listener) error {
	for _, f := range template.ListenerFilters {
		config := f.GetTypedConfig()
		if f.Name != ambient.TablesFilter || config == nil {
			continue
		}
		if filepath.Base(template.Name) != template.Name {
			return fmt.Errorf("template %q: must be a file's name", template.Name)
		}
		path := filepath.Join(folder, template.Name+".pb") // Envoy reads a message as it is by this ending
		if err := writeTables(path, f.Name, config); err != nil {
			return fmt.Errorf("which ports have tables cannot be told to Envoy: %w", err)
		}
		f.ConfigType = &listenerv3.ListenerFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
			ConfigSource: &corev3.ConfigSource{
				ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: path}},
				ResourceApiVersion:    corev3.ApiVersion_V3,
			},
			TypeUrls: []string{config.TypeUrl},
		}}
	}
	return nil
}

// writeTables writes what Envoy reads of it, where it is not there already.
func writeTables(path, name string, config *anypb.Any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	extension, err := anypb.New(&corev3.TypedExtensionConfig{Name: name, TypedConfig: config})
	if err != nil {
		return err
	}
	version := sha256.Sum256(config.Value)
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(&discoveryv3.DiscoveryResponse{
		VersionInfo: hex.EncodeToString(version[:16]), TypeUrl: extension.TypeUrl, Resources: []*anypb.Any{extension},
	})
	if err != nil {
		return err
	}
	if was, err := os.ReadFile(path); err == nil && string(was) == string(content) {
		return nil
	}
	return writeFile(path, content)
}
