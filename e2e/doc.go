// Package e2e holds the tests that nothing is mocked in: the story of package story with the programs of bin/, what
// explain says held against what Envoy does and the audit log holds, certificates that rotate under traffic, the
// directions of the module's imports, and the commands that the README shows. Meshes are set side by side.
//
// Its packages: world makes hosts of network namespaces, outside plays what is beyond the mesh, story is the ordered
// list of what must hold, demo prints it. With SALLYPORT_E2E_FETCH=onUse the sidecars of all scenes hold what their pods use.
package e2e
