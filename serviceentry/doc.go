// Package serviceentry and the packages below it say WHAT may leave the mesh.
//
// This package holds the values that they share: the key of a configuration object, the object as its source
// read it, and a change to it. Sources (source/dir, source/kube) make changes, admission refuses bad ones with
// the words the user sees, the registry applies the rest, policy decides from what the registry holds.
//
// It imports nothing of this module.
package serviceentry
