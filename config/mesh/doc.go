// Package mesh reads the mesh-wide settings.
//
// In: Istio's MeshConfig as YAML or JSON, bare or inside the ConfigMap "istio" (data.mesh), with one block of our
// own, "sallyport:". Out: a Config that holds what this program uses, with every default filled in. Unknown and
// wrong fields are errors; fields of Istio's that have no effect here are accepted.
//
// It imports only what names, trees and addresses are made of: config/host, config/decode/strict, config/inside, and config/fields, which says what becomes of a setting. What a
// setting means for an object is said here where several packages ask (Config.Withheld).
package mesh
