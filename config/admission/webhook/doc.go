// Package webhook refuses objects that lint would call wrong, when they are written to Kubernetes, and warns of what
// lint would warn of, in the same words.
//
// In: an admission.k8s.io/v1 review; out: the answer. Nothing is read from elsewhere but through Config.Check and
// Config.Foresee, and nothing is changed. It imports admission, its review, and decode of this project.
//
// # The webhook's registration
//
// The chart registers a ValidatingWebhookConfiguration for CREATE and UPDATE of the kinds that are read. It names no
// path: the leader writes one, /validate/KEY, and what Check and Foresee say is for those alone who ask by it.
//
//   - failurePolicy Ignore, timeoutSeconds 5. The webhook is where a mistake is told first, not where it is stopped: the
//     control plane judges every object that it reads by the same rules, keeps the last good version and says why in the object's status.
//     With Fail, nobody could change what may leave the mesh while the controller is away, and that may be when it is needed most.
//   - No selector: nothing that the cluster needs to start is of these kinds.
//   - matchPolicy Equivalent, sideEffects None, admissionReviewVersions v1.
//
// An update is not refused for what was wrong before it: who labels an old object, or takes a finalizer off, need not mend
// it first. Nor is a deletion, ever.
package webhook
