// Package e2e holds the tests that nothing is mocked in: the story of package story with the programs of bin/, the
// directions of the module's imports, and the commands that the README shows.
//
// Its packages: world makes hosts of network namespaces, outside plays what is beyond the mesh, story is the ordered
// list of what must hold, demo prints it.
package e2e
