// Package admission says what is wrong with configuration objects, in the words that users read everywhere: from
// lint, from the sources, in an object's status and from the webhook.
//
// In: one object (Validate), or all of them with the mesh's settings (Check). Out: findings. An error means that the
// object must not be applied: Istio would refuse it as well, or could not do what it asks for. A warning means
// that it can be applied and probably does not do what it seems to.
//
// The package reads nothing, logs nothing and changes nothing. It imports config and its
// fields, host and mesh, decode/strict for the words about mistyped names, and the registry for what objects mean together.
package admission
