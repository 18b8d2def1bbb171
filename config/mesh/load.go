package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/config/source/wholefile"
)

// maxFile bounds a settings file; real ones have a few KiB.
const maxFile = 1 << 20

// Load reads a file. Its errors name the file, the field, the value and what to do; several are joined.
func Load(file string) (Config, error) {
	data, err := wholefile.Read(file, maxFile)
	if err != nil {
		return Config{}, fmt.Errorf("mesh settings: %w", err)
	}
	if len(data) > maxFile {
		return Config{}, fmt.Errorf("mesh settings: %s has more than %d bytes, which is what is read at most; give the file that holds the MeshConfig", file, maxFile)
	}
	c, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("mesh settings: %s: %w", file, err)
	}
	return c, nil
}

// Parse reads a document: a MeshConfig, or a ConfigMap that holds one as data.mesh. An empty one means Default.
func Parse(data []byte) (Config, error) {
	tree, err := readTree(data)
	if err != nil {
		return Config{}, err
	}
	var networks any
	if tree["kind"] == "ConfigMap" {
		if tree, networks, err = fromConfigMap(tree); err != nil {
			return Config{}, err
		}
	}
	ours := tree["sallyport"]
	delete(tree, "sallyport")

	istio := &meshconfig.MeshConfig{}
	problems := strict.Message(tree, istio.ProtoReflect().Descriptor(), "")
	for i := range problems {
		if strict.Closest(problems[i].Field, []string{"sallyport"}) != "" {
			problems[i].Fix = `did you mean "sallyport"?`
		}
	}
	if len(problems) > 0 {
		return Config{}, join(problems)
	}
	plain, err := json.Marshal(tree)
	if err != nil {
		return Config{}, err
	}
	if err := json.Unmarshal(plain, istio); err != nil {
		return Config{}, err
	}

	c := Default()
	problems = c.applyIstio(istio)
	problems = append(problems, c.applyOurs(ours)...)
	b := block{}
	b.meshNetworks(&c.Topology, "networks", networks)
	problems = append(problems, b.problems...)
	for _, r := range fields.MeshConfig.Remarks(istio, "") {
		p := problem(r.Path, r.Value, "is not applied: "+r.Why, r.Fix)
		if r.Fate == fields.Refused {
			problems = append(problems, p)
		} else {
			c.Ignored = append(c.Ignored, p)
		}
	}
	if len(problems) > 0 {
		return Config{}, join(problems)
	}
	return c, nil
}

func readTree(data []byte) (map[string]any, error) {
	plain, err := yaml.YAMLToJSONStrict(data)
	if err == nil {
		err = oneDocument(data)
	}
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	var v any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(plain, &v); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("%s is no MeshConfig: write a mapping of fields", strict.Show(v))
	}
}

// oneDocument rejects what would not be read: all that comes after the first document. One that is empty is none.
func oneDocument(data []byte) error {
	d := yamlv3.NewDecoder(bytes.NewReader(data))
	for first := true; ; first = false {
		var doc yamlv3.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !first && len(doc.Content) > 0 && doc.Content[0].Tag != "!!null":
			return fmt.Errorf(`line %d: begins another document, of which nothing would be read; write all settings into one, without "---" between them`, doc.Content[0].Line)
		}
	}
}

// fromConfigMap gives the MeshConfig in a ConfigMap, and its meshNetworks; nil without any.
func fromConfigMap(tree map[string]any) (inner map[string]any, networks any, err error) {
	data, _ := tree["data"].(map[string]any)
	text, ok := data["mesh"].(string)
	if !ok {
		return nil, nil, errors.New(`data.mesh: the ConfigMap has no such text: give the ConfigMap "istio", or the MeshConfig alone`)
	}
	if inner, err = readTree([]byte(text)); err != nil {
		return nil, nil, fmt.Errorf("data.mesh: %w", err)
	}
	if text, ok := data["meshNetworks"].(string); ok {
		all, err := readTree([]byte(text))
		if err != nil {
			return nil, nil, fmt.Errorf("data.meshNetworks: %w", err)
		}
		networks = all["networks"]
	}
	return inner, networks, nil
}

func join(problems []strict.Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
