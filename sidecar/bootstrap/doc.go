// Package bootstrap writes the file that Envoy starts from.
//
// In: Options (who this proxy is, where the agent's socket and resolver are); out: the bootstrap as JSON, and the
// node as the agent itself presents it before Envoy has spoken. JSON is a pure function: equal options, equal bytes.
//
// It must not import Envoy's protos: the agent carries this package, and every proto package costs resident memory.
// The test runs the real binary over every golden instead.
package bootstrap
