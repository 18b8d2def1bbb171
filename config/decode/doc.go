// Package decode reads configuration files: YAML or JSON, one document or many, lists included.
//
// In: a file's name and bytes. Out: config.Objects with their origin (file:line) and content hash, the keys of
// objects that could be named but not read, and findings in admission's words. Fields of Istio's kinds are read
// strictly. It judges no object: that is admission's part. It opens no file.
package decode
