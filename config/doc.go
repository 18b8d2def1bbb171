// Package config and the packages below it read objects as users write them, of any kind, and judge each by itself.
//
// This package holds the values that all of it shares: the key of a configuration object, the object as its source
// read it, and a change to it. Sources (source/dir, source/kube) make changes, decode turns YAML into API types, admission
// refuses bad ones with the words the user sees. What there is in the end, and what becomes of a request, is
// serviceentry's to say.
//
// It imports nothing of this module.
package config
