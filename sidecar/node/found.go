package node

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// found reads which pods have networks from what the runtime keeps of its calls of CNI plugins: files of root's alone, one for each network of
// a pod (libcni). By these a pod is known that started when nobody told the agent.
func found(folder string) []Local {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	seen := map[Local]bool{}
	var out []Local
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			continue // it is gone already
		}
		if l, ok := parseFound(text); ok && !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}

// parseFound reads one of these files. The path of the network is the call's, or, in older ones, that of an interface that was made in it.
func parseFound(text []byte) (l Local, ok bool) {
	var cached struct {
		Network string      `json:"netns"`
		Args    [][2]string `json:"cniArgs"`
		Result  struct {
			Interfaces []struct {
				Sandbox string `json:"sandbox"`
			} `json:"interfaces"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &cached) != nil {
		return l, false
	}
	args := map[string]*string{"K8S_POD_NAMESPACE": &l.Namespace, "K8S_POD_NAME": &l.Name, "K8S_POD_UID": &l.UID}
	for _, a := range cached.Args {
		if to := args[a[0]]; to != nil {
			*to = a[1]
		}
	}
	l.Network = cached.Network
	for _, i := range cached.Result.Interfaces {
		if l.Network == "" {
			l.Network = i.Sandbox
		}
	}
	return l, l.Valid() == nil && l.Network != ""
}
