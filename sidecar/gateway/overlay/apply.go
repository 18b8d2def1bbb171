package overlay

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kubejson "sigs.k8s.io/json"
)

// Apply gives an object as the patches of several ConfigMaps leave it, one after the other. The object itself stays as it is, and so do the labels
// and annotations that it has: those are its Gateway's, and no ConfigMap changes them. An error is an Error.
func Apply[T any](key Key, of *T, sets ...*Set) (*T, error) {
	for _, s := range sets {
		if err := s.keeps(key, of); err != nil {
			return nil, s.wrong(key, err)
		}
	}
	for _, s := range sets {
		patch := s.patches[key]
		if len(patch) == 0 {
			continue
		}
		patched, err := apply(of, patch)
		if err != nil {
			return nil, s.wrong(key, err)
		}
		of = patched
	}
	return of, nil
}

func apply[T any](of *T, patch map[string]any) (*T, error) {
	of, patch, err := applyPorts(of, patch)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	after, err := merge(before, text, *of)
	if err != nil {
		return nil, fmt.Errorf("it is no patch of such an object: %w", err)
	}
	out := new(T)
	odd, err := kubejson.UnmarshalStrict(after, out)
	if err == nil && len(odd) > 0 {
		err = odd[0]
	}
	return out, err
}

// merge is strategicpatch's, which panics where a directive of a patch ($retainKeys and the like) has values of another type than it reads: what somebody wrote is
// no reason for the controller to end.
func merge(before, patch []byte, of any) (after []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a directive in it is none: %v", r)
		}
	}()
	return strategicpatch.StrategicMergePatch(before, patch, of)
}
