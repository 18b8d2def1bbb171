// Package load measures what a mesh costs its control plane.
//
// In: a built `sallyport`, and how large the mesh is. Out: figures beside their targets. It starts a real controller
// on a directory that it fills, and connects delta ADS streams that behave as Envoys and their agents do: node ids
// and metadata as Istio's, Envoy's order of subscriptions, an acknowledgement for each response.
//
// Clients and controller share the machine, so the clients are kept cheap: a response is looked through where it
// lies, its resources are counted and not unmarshalled. The package must not import the programs that it measures; how
// agents say what they read, and read it, is xds/compress.
package load
