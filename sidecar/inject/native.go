package inject

import (
	"encoding/json"
	"fmt"

	"istio.io/api/annotation"
	"k8s.io/apimachinery/pkg/util/version"
)

// Native says whether pods get their proxy as a native sidecar: an init container that keeps running, is there before the
// application's own init containers, and ends after the application has, so that a Job is done when its work is.
type Native string

// The choices. In YAML they may be written as booleans.
const (
	NativeAuto   Native = "auto"  // where the cluster has them
	NativeAlways Native = "true"  // also where that is not known
	NativeNever  Native = "false" // an ordinary container beside the application's
)

// nativeSince is the first Kubernetes that runs them without being told to.
var nativeSince = version.MajorMinor(1, 29)

// HasNative says whether a Kubernetes of this version ("v1.36.1") runs native sidecars.
func HasNative(gitVersion string) (bool, error) {
	v, err := version.ParseGeneric(gitVersion)
	return err == nil && v.AtLeast(nativeSince), err
}

// UnmarshalJSON takes "auto" and booleans, in quotes or not.
func (n *Native) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	switch text := fmt.Sprint(value); Native(text) {
	case NativeAuto, NativeAlways, NativeNever:
		*n = Native(text)
		return nil
	default:
		return fmt.Errorf("nativeSidecar: %q: write auto, true or false", text)
	}
}

// native says which of the two forms a pod gets. One that asks for what the cluster cannot do is refused: without its proxy it
// would have no way out.
func (r *reader) native(s Settings) bool {
	is := s.NativeSidecar == NativeAlways || s.NativeSidecar == NativeAuto && !s.NoNative
	name := annotation.SidecarNativeSidecar.Name
	r.boolean(name, &is)
	if value, asked := r.get(name); asked && is && s.NoNative && s.NativeSidecar == NativeAuto {
		r.mistake(name, value, "this cluster is older than Kubernetes "+nativeSince.String()+" and runs no native sidecars", "remove the annotation")
	}
	return is
}
