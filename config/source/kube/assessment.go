package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

// Assessment is what the source found about the newest version of an object whose status is written.
type Assessment struct {
	Key        config.Key
	Resource   schema.GroupVersionResource // where its status is written
	Gone       bool                        // the object was deleted; nothing below is set
	Refused    bool
	LastGood   bool   // a version of it is in use: this one, or, when this one is refused, the last good one
	Generation int64  // metadata.generation
	Reported   uint64 // the condition.Digest of what its status holds of ours
	// Held is what its status holds that is kept until somebody looked; of other kinds than EgressPolicy it is nothing.
	Held     condition.Held
	Findings []admission.Finding
}
